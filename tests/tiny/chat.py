"""A chat model of 0.2 million random numbers, with a real byte-level tokenizer and chat template, that the real classes
load: Qwen2 or Qwen3. What it says makes no sense, but each prompt gets a reply of its own, in whole characters.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.engines.registry import Kind
from pipeline.ports import EngineOptions
from pipeline.settings import Settings

CORPUS = (
    "你好，我是语音助手。今天天气怎么样？一二三四五六七八九十，谢谢再见！请用广东话说一句话。",
    "退货在三十天之内都可以。请问您的订单号是多少？我们周末也营业，从九点到六点！",
    "Hello, how are you? We are open from nine to six. You can bring shoes back within thirty days.",
    "What colour is the sky? Tell me a long story about a ship, with every detail.",
    "Repeat this word and nothing else: cat dog horse bird fish snake lion mouse!",
)
MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")
TEMPLATE = (
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}"
    "{{- '<think>\n\n</think>\n\n' }}{%- endif %}{%- endif %}"
)
CONTEXT = 2048
_LOUD = 0.3  # the value of the one feature that every token has


def tokenizer() -> Any:
    """Byte-level BPE as Qwen's, trained on CORPUS."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=list(MARKS[:3]), initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(CORPUS * 8, trainer)
    made.add_tokens(list(MARKS[3:]))  # as in Qwen3, where they are no special tokens
    fast = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = TEMPLATE
    return fast


def build_chat(folder: Path, family: str = "qwen2", ends: str = "", **config: Any) -> Path:
    """Write the model into `folder` / `family`. `ends`: a text whose token also ends a reply, for the model never ends
    one by itself. `config` overrides sizes."""
    import torch
    from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

    tok = tokenizer()
    sizes: dict[str, Any] = {
        "vocab_size": len(tok),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT,
        "bos_token_id": None,
        "eos_token_id": tok.eos_token_id,
        "pad_token_id": tok.pad_token_id,
        "tie_word_embeddings": False,
        "initializer_range": 0.4,  # ten times the usual: attention is sharp, and every prompt tells on the reply
    }
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if family == "qwen2":
            model = Qwen2ForCausalLM(Qwen2Config(**{**sizes, **config})).eval()
        else:
            model = Qwen3ForCausalLM(Qwen3Config(**{**sizes, "head_dim": 16, **config})).eval()
    _hush(model, tok)
    stops = [tok.eos_token_id, tok.pad_token_id] + ([tok.convert_tokens_to_ids(tok.tokenize(ends)[0])] if ends else [])
    model.generation_config = GenerationConfig(eos_token_id=stops, pad_token_id=tok.pad_token_id, do_sample=False)
    model.save_pretrained(folder / family)
    tok.save_pretrained(folder / family)
    return folder / family


def _hush(model: Any, tok: Any) -> None:
    """Marks and lone bytes are never said: their output weight is far below the others' on a feature that the input
    always carries and no layer writes to."""
    import torch

    noise = [i for i in range(len(tok)) if "�" in (text := tok.decode([i])) or text in MARKS or not text.isprintable()]
    with torch.no_grad():
        model.model.embed_tokens.weight[:, 0] = _LOUD
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight[0] = 0.0
            layer.mlp.down_proj.weight[0] = 0.0
        model.lm_head.weight[:, 0] = 0.0
        model.lm_head.weight[noise, 0] = -1000.0


def _local(family: str) -> Callable[[Path], EngineOptions]:
    def options(folder: Path) -> EngineOptions:
        at = folder / family
        chosen = Settings(llm_model=str(at if at.is_dir() else build_chat(folder, family)), device="cpu")
        return EngineOptions(threads=1, models=folder, settings=chosen)

    return options


def _served(folder: Path) -> EngineOptions:
    from tests.tiny.chat_server import ChatServer

    server = ChatServer().start()
    atexit.register(server.stop)
    return EngineOptions(threads=1, models=folder, settings=Settings(llm_url=server.url, llm_model="tiny"))


OPTIONS: dict[tuple[Kind, str], Callable[[Path], EngineOptions]] = {
    (Kind.LLM, "transformers"): _local("qwen2"),
    (Kind.LLM, "transformers-batched"): _local("qwen3"),
    (Kind.LLM, "openai"): _served,
}
