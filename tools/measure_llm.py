"""What prefix reuse and continuous batching are worth, on models with random weights: no download.

  python tools/measure_llm.py prefix          first token with and without reuse, at Qwen2.5-0.5B's real size
  python tools/measure_llm.py batch           tokens a second for 1, 2, 4 and 8 visitors, on a tiny model
  python tools/measure_llm.py batch --real    the same at the real size, with few tokens
  python tools/measure_llm.py load            import and load times, each in a process of its own

Random weights cost what real ones cost; what they say makes no sense. On a CPU the engines compute in float32.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # as chat_ground.load_chat does

from pipeline.ports import Message, ReplyLimits, Role, never  # noqa: E402

QWEN_05B: dict[str, Any] = {
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151_936,
    "tie_word_embeddings": True,
    "max_position_embeddings": 32_768,
    "bos_token_id": None,
    "eos_token_id": None,  # a reply always has as many tokens as asked for
}
VISITORS = (1, 2, 4, 8)
QUESTION_TOKENS = 20


def real_model(dtype: str) -> Any:
    import torch
    from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

    model = Qwen2ForCausalLM(Qwen2Config(**QWEN_05B)).to(getattr(torch, dtype)).eval()
    model.generation_config = GenerationConfig()
    return model


def chat_of(real: bool, threads: int) -> Any:
    """A Chat without the registry: a real-size model, or the tests' tiny one."""
    from pipeline.engines.chat_ground import Chat
    from tests.tiny.chat import build_chat, tokenizer

    if real:
        return Chat(real_model("float32"), tokenizer(), threads)
    from transformers import AutoModelForCausalLM

    with tempfile.TemporaryDirectory() as folder:
        model = AutoModelForCausalLM.from_pretrained(build_chat(Path(folder)))
    return Chat(model.eval(), tokenizer(), threads)


def words(chat: Any, seed: int, tokens: int) -> str:
    """Text of about `tokens` tokens, different for each seed."""
    text = f"{seed}"
    while len(chat.prompt([Message(Role.USER, text)], ask=False)) < tokens:
        text += f" {seed * 31 + len(text) % 97}"
    return text


def prefix(real: bool, tokens: int, runs: int, threads: int) -> dict[str, Any]:
    """Seconds to the first token after `tokens` tokens of prefix and a question; medians of `runs`."""
    from pipeline.engines.transformers_llm import TransformersLlm

    chat = chat_of(real, threads)
    system = Message(Role.SYSTEM, words(chat, 1, tokens))
    first = ReplyLimits(max_tokens=1)

    def seconds(llm: TransformersLlm, seed: int) -> tuple[float, int, int]:
        messages = [system, Message(Role.USER, words(chat, seed, QUESTION_TOKENS))]
        before, started = llm.counts, time.perf_counter()
        for _ in llm.reply(messages, never, first):
            pass
        took = time.perf_counter() - started
        return took, llm.counts.computed - before.computed, llm.counts.reused - before.reused

    warm = TransformersLlm(chat)
    warm.warm([system])
    seconds(warm, 2)
    reused = [seconds(warm, 10 + n) for n in range(runs)]
    anew = [seconds(TransformersLlm(chat), 10 + n) for n in range(runs)]
    without, with_ = (statistics.median(took for took, _, _ in many) for many in (anew, reused))
    return {
        "model": "Qwen2.5-0.5B's size, random" if real else "tiny",
        "dtype": str(chat.model.dtype),
        "prefix_tokens": len(chat.prompt([system], ask=False)),
        "computed_anew": anew[0][1],
        "computed_with_reuse": reused[0][1],
        "first_token_anew_ms": round(1e3 * without, 1),
        "first_token_with_reuse_ms": round(1e3 * with_, 1),
        "ratio": round(without / with_, 2),
        "runs": runs,
    }


def batch(real: bool, tokens: int, threads: int) -> dict[str, Any]:
    """Tokens a second of all visitors together, batched and one at a time, and against one visitor's."""
    from pipeline.engines.transformers_batched import TransformersBatched
    from pipeline.engines.transformers_llm import TransformersLlm

    chat = chat_of(real, threads)
    system = Message(Role.SYSTEM, words(chat, 1, 100))
    limits = ReplyLimits(max_tokens=tokens)
    table: dict[str, Any] = {"model": "Qwen2.5-0.5B's size, random" if real else "tiny", "tokens_each": tokens}
    for llm in (TransformersBatched(chat), TransformersLlm(chat)):
        llm.warm_up()
        llm.warm([system])

        def visit(seed: int, llm: Any = llm) -> None:
            for _ in llm.reply([system, Message(Role.USER, words(chat, seed, QUESTION_TOKENS))], never, limits):
                pass

        rates: dict[int, float] = {}
        for visitors in VISITORS:
            with ThreadPoolExecutor(visitors) as pool:
                started = time.perf_counter()
                list(pool.map(visit, range(100 * visitors, 101 * visitors)))
                rates[visitors] = visitors * tokens / (time.perf_counter() - started)
        table[llm.name] = {n: {"tokens_per_s": round(r, 1), "ratio": round(r / rates[1], 2)} for n, r in rates.items()}
    return table


def load(real: bool, threads: int) -> dict[str, Any]:
    """Seconds, each in a fresh process: the imports, then the engine out of a folder."""
    with tempfile.TemporaryDirectory() as folder:
        if real:
            from tests.tiny.chat import tokenizer

            real_model("bfloat16").save_pretrained(folder)  # as the weights are published
            tokenizer().save_pretrained(folder)
            model = Path(folder)
        else:
            from tests.tiny.chat import build_chat

            model = build_chat(Path(folder))
        code = (
            "import time, json; t = [time.perf_counter()]; mark = lambda: t.append(time.perf_counter())\n"
            "import torch; mark()\n"
            "from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2ForCausalLM; mark()\n"
            "from pipeline.engines.registry import Kind, create\n"
            "from pipeline.ports import EngineOptions; from pipeline.settings import Settings; mark()\n"
            f"chosen = Settings(llm_model={str(model)!r}, device='cpu')\n"
            f"llm = create(Kind.LLM, 'transformers', EngineOptions(threads={threads}, settings=chosen)); mark()\n"
            "llm.warm_up(); mark()\n"
            "print(json.dumps([round(b - a, 2) for a, b in zip(t, t[1:])]))"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    names = ("import_torch_s", "import_transformers_s", "import_registry_s", "load_s", "warm_up_s")
    return {
        "model": "Qwen2.5-0.5B's size, random, bfloat16 on disk" if real else "tiny",
        **dict(zip(names, json.loads(done.stdout.splitlines()[-1]), strict=True)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prefix", "batch", "load"))
    parser.add_argument("--real", action="store_true", help="batch, load: the size of Qwen2.5-0.5B")
    parser.add_argument("--tiny", action="store_true", help="prefix: the tiny model instead")
    parser.add_argument("--prefix-tokens", type=int, default=300)
    parser.add_argument("--tokens", type=int, default=0, help="batch: tokens of each reply (64, or 8 with --real)")
    parser.add_argument("--runs", type=int, default=7, help="prefix: replies timed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    chosen = parser.parse_args()
    if chosen.what == "prefix":
        found = prefix(not chosen.tiny, chosen.prefix_tokens, chosen.runs, chosen.threads)
    elif chosen.what == "batch":
        found = batch(chosen.real, chosen.tokens or (8 if chosen.real else 64), chosen.threads)
    else:
        found = load(chosen.real, chosen.threads)
    print(json.dumps(found, indent=1))
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
