"""A model directory for the real CosyVoice 3 classes, very small and with random weights: it speaks noise, by the real
code. Made with the classes and the configuration of the checkout itself.

    COSYVOICE_HOME=DIR python -m tests.tiny.cosyvoice_upstream FOLDER

Needs the packages of the engine's row and `onnx`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

END_OF_PROMPT = 151_646  # the number upstream looks for
SMALLER = {  # in the checkout's configuration: pattern -> replacement
    r"llm_input_size: 896": "llm_input_size: 32",
    r"llm_output_size: 896": "llm_output_size: 32",
    r"channels: 1024": "channels: 32",
    r"dim: 1024": "dim: 64",
    r"depth: 22": "depth: 1",
    r"heads: 16": "heads: 2",
    r"dim_head: 64": "dim_head: 32",
    r"base_channels: 512": "base_channels: 64",
    r"cond_channels: 512": "cond_channels: 32",
}


def make(home: Path, folder: Path) -> Path:
    """Everything `cosyvoice3` needs, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    _text_model(folder / "CosyVoice-BlankEN")
    _onnx(folder)
    written = (home / "examples/libritts/cosyvoice3/conf/cosyvoice3.yaml").read_text("utf-8")
    for pattern, smaller in SMALLER.items():
        written, found = re.subn(pattern, smaller, written)
        assert found, f"the checkout's configuration has no {pattern}"
    # What only training needs is left out, as in the published file.
    written = re.sub(r"(?ms)^# gan related module.*?(?=^# processor functions)", "", written)
    written = re.sub(r"(?ms)^# dataset processor pipeline.*", "", written)
    (folder / "cosyvoice3.yaml").write_text(written, "utf-8")
    _weights(home, folder)
    return folder


def _text_model(folder: Path) -> None:
    """A Qwen2 of two small layers, and a byte-level tokenizer in which the marks have their real numbers."""
    import torch
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2Config, Qwen2ForCausalLM

    folder.mkdir(exist_ok=True)
    letters = sorted(ByteLevel.alphabet())
    words = letters + [f"<filler{i}>" for i in range(END_OF_PROMPT - 3 - len(letters))]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}), "utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", "utf-8")
    marks = {END_OF_PROMPT - 3: "<|endoftext|>", END_OF_PROMPT - 2: "<|im_start|>", END_OF_PROMPT - 1: "<|im_end|>"}
    added = {str(i): {"content": mark, "special": True} for i, mark in marks.items()}
    settings = {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": added, "model_max_length": 32768}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=152_000,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=True,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)


def _onnx(folder: Path) -> None:
    """The speaker embedding (a mean, made 192 wide) and the speech tokenizer (every fourth frame is token 7)."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def save(name: str, nodes: list[Any], inputs: list[Any], output: Any, constants: dict[str, Any]) -> None:
        held = [numpy_helper.from_array(value, key) for key, value in constants.items()]
        graph = helper.make_graph(nodes, name, inputs, [output], held)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(made, str(folder / f"{name}.onnx"))

    save(
        "campplus",
        [
            helper.make_node("ReduceMean", ["feats"], ["mean"], axes=[1], keepdims=0),
            helper.make_node("MatMul", ["mean", "wide"], ["embedding"]),
        ],
        [helper.make_tensor_value_info("feats", TensorProto.FLOAT, [1, "frames", 80])],
        helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [1, 192]),
        {"wide": np.random.default_rng(0).normal(size=(80, 192)).astype(np.float32)},
    )
    save(
        "speech_tokenizer_v3",
        [
            helper.make_node("Slice", ["feats", "begin", "end", "axes", "steps"], ["few"]),
            helper.make_node("Mul", ["few", "zero"], ["nothing"]),
            helper.make_node("Add", ["nothing", "seven"], ["sevens"]),
            helper.make_node("Cast", ["sevens"], ["tokens"], to=TensorProto.INT64),
            helper.make_node("Identity", ["length"], ["unused"]),
        ],
        [
            helper.make_tensor_value_info("feats", TensorProto.FLOAT, [1, 128, "frames"]),
            helper.make_tensor_value_info("length", TensorProto.INT32, [1]),
        ],
        helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, 1, "few"]),
        {
            "begin": np.array([0, 0]),
            "end": np.array([1, 2**31]),
            "axes": np.array([1, 2]),
            "steps": np.array([1, 4]),
            "zero": np.float32(0.0),
            "seven": np.float32(7.0),
        },
    )


def _weights(home: Path, folder: Path) -> None:
    """Random ones, out of the classes that the configuration names."""
    import torch

    from pipeline.engines import cosyvoice_checkout

    with cosyvoice_checkout.importable(str(home)):
        from hyperpyyaml import load_hyperpyyaml

        with (folder / "cosyvoice3.yaml").open(encoding="utf-8") as file:
            parts = load_hyperpyyaml(file, overrides={"qwen_pretrain_path": str(folder / "CosyVoice-BlankEN")})
    for name in ("llm", "flow", "hift"):
        torch.save(parts[name].state_dict(), folder / f"{name}.pt")


if __name__ == "__main__":
    print(make(Path(os.environ["COSYVOICE_HOME"]), Path(sys.argv[1])))
