"""The ways of running SmolLM2 that tools/compare_llm.py measures, each behind the same two calls.

Everything goes by token numbers, so that every runtime computes the very same prompt. Packages are imported when a
way is opened, never before: each lives in a process of its own and pays for its own import.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

END = 2  # <|im_end|>
Tick = Callable[[], None]  # called as each token is known


class Runtime(Protocol):
    def warm(self, ids: Sequence[int]) -> Any:
        """Compute and keep the state after `ids`."""

    def reply(self, ids: Sequence[int], limit: int, tick: Tick) -> list[int] | str:
        """What is likeliest after `ids`, up to END or `limit` tokens; what was warmed is not computed again."""


@dataclass(frozen=True, slots=True)
class Way:
    """One row of the table."""

    opens: Callable[..., Runtime]
    weights: str  # below the folder that `prepare` fills; "" is the GGUF as shipped
    needs: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)


class LlamaCpp:
    """As pipeline/engines/smollm2.py opens it, but for what `options` change."""

    def __init__(self, path: Path, threads: int = 2, wait: str = "passive", speculate: int = 0, **params: Any) -> None:
        os.environ["OMP_WAIT_POLICY"] = wait  # read once, when the library loads
        import xllamacpp

        p = xllamacpp.CommonParams()
        p.model.path, p.n_ctx, p.n_parallel, p.cache_ram_mib = str(path), 1024 * 4, 4, 0
        p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads
        self._folder = tempfile.mkdtemp()
        p.hostnames, p.n_threads_http, p.ui, p.endpoint_slots = [f"{self._folder}/s.sock"], 1, False, False
        p.verbosity = -1
        if speculate:  # guess what follows from where the last words stood before: answers repeat their fact
            p.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
            p.speculative.ngram_simple.size_n, p.speculative.ngram_simple.size_m = 2, speculate
        for name, value in params.items():
            setattr(p, name, value)
        self._server = xllamacpp.Server(p)
        shutil.rmtree(self._folder, ignore_errors=True)

    def warm(self, ids: Sequence[int]) -> None:
        self.reply(ids, 0, lambda: None)

    def reply(self, ids: Sequence[int], limit: int, tick: Tick) -> str:
        said: list[str] = []

        def look(answer: Any) -> bool:
            for part in answer if isinstance(answer, list) else [answer]:
                if "error" in part:
                    raise RuntimeError(part["error"])
                for choice in part["choices"]:
                    if choice["finish_reason"] is None:  # one part a token
                        tick()
                        said.append(choice["text"])
            return False

        wish = {"prompt": list(ids), "n_predict": limit, "temperature": 0.0, "id_slot": 0, "cache_prompt": True}
        self._server.handle_completions({**wish, "stream": True}, look)
        return "".join(said)


class Onnx:
    """As pipeline/engines/smollm2_ort.py does it: a graph of the GGUF's own numbers on plain onnxruntime."""

    def __init__(self, path: Path, threads: int = 2) -> None:
        from pipeline.engines.smollm2_ort import Smollm2Ort

        self._slot = Smollm2Ort(path, threads, slots=1)._slots[0]

    def warm(self, ids: Sequence[int]) -> None:
        self._slot.prefill(ids, lambda: False, redo_last=False)

    def reply(self, ids: Sequence[int], limit: int, tick: Tick) -> list[int]:
        scores = self._slot.prefill(ids, lambda: False)
        said: list[int] = []
        while len(said) < limit and scores is not None:
            tick()
            said.append(int(scores.argmax()))
            if said[-1] == END:
                return said[:-1]
            scores = self._slot.step(said[-1:])
        return said


class CTranslate2:
    """Its prefix cache keeps whole "static prompts": one that grew by a word is computed anew, and none is let go."""

    def __init__(self, path: Path, threads: int = 2) -> None:
        import ctranslate2
        import tokenizers

        self._model = ctranslate2.Generator(str(path), device="cpu", intra_threads=threads, compute_type="int8")
        self._tokens = tokenizers.Tokenizer.from_file(str(path.parent / "hf" / "tokenizer.json"))
        self._held: list[int] = []

    def warm(self, ids: Sequence[int]) -> None:
        self._held = list(ids)
        self._ask(ids[-1:], 1, lambda: None)

    def reply(self, ids: Sequence[int], limit: int, tick: Tick) -> list[int]:
        held = self._held if self._held == list(ids[: len(self._held)]) else []
        return self._ask(ids[len(held) :], limit, tick, held)

    def _ask(self, ids: Sequence[int], limit: int, tick: Tick, held: Sequence[int] = ()) -> list[int]:
        named = [self._tokens.id_to_token(i) for i in ids]
        static = [self._tokens.id_to_token(i) for i in held or self._held]
        (done,) = self._model.generate_batch(
            [named],
            static_prompt=static or None,
            cache_static_prompt=bool(static),
            max_length=limit,
            sampling_topk=1,
            include_prompt_in_result=False,
            end_token=[END],
            callback=lambda _: bool(tick()),
        )
        return [i for i in done.sequences_ids[0] if i != END]


class OpenVino:
    """OpenVINO GenAI, continuous batching with its prefix cache: kept in blocks of 32 tokens, the rest is computed."""

    def __init__(self, path: Path, threads: int = 2) -> None:
        import openvino_genai as genai

        cache = genai.SchedulerConfig()
        cache.enable_prefix_caching, cache.cache_size = True, 1
        self._genai = genai
        self._pipe = genai.LLMPipeline(str(path), "CPU", scheduler_config=cache, INFERENCE_NUM_THREADS=threads)

    def warm(self, ids: Sequence[int]) -> None:
        self.reply(ids, 1, lambda: None)

    def reply(self, ids: Sequence[int], limit: int, tick: Tick) -> list[int]:
        import numpy as np
        import openvino

        genai, said = self._genai, list[int]()

        class Watch(genai.StreamerBase):  # type: ignore[misc]
            def write(self, token: int | Sequence[int]) -> Any:
                for one in token if isinstance(token, list) else [token]:
                    tick()
                    said.append(one)
                return genai.StreamingStatus.RUNNING

            def end(self) -> None: ...

        wish = genai.GenerationConfig(max_new_tokens=limit, eos_token_id=END, apply_chat_template=False)
        row = np.array([list(ids)], np.int64)
        tensors = genai.TokenizedInputs(openvino.Tensor(row), openvino.Tensor(np.ones_like(row)))
        self._pipe.generate(tensors, wish, Watch())
        return [i for i in said if i != END]


class OrtGenai:
    """onnxruntime-genai: one generator, rewound to what the new prompt shares with the last."""

    def __init__(self, path: Path, threads: int = 2) -> None:
        import onnxruntime_genai as og

        config = og.Config(str(path))
        session = {"intra_op_num_threads": threads, "session.intra_op.allow_spinning": "0"}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": session}}}))
        self._model = og.Model(config)
        params = og.GeneratorParams(self._model)
        params.set_search_options(max_length=1024, do_sample=False)
        self._generator, self._held = og.Generator(self._model, params), list[int]()

    def warm(self, ids: Sequence[int]) -> None:
        at = _common(self._held, ids)
        self._generator.rewind_to(at)
        if ids[at:]:
            self._generator.append_tokens(list(ids[at:]))
        self._held = list(ids)

    def reply(self, ids: Sequence[int], limit: int, tick: Tick) -> list[int]:
        self.warm(ids)
        said: list[int] = []
        while len(said) < limit:
            self._generator.generate_next_token()
            token = int(self._generator.get_next_tokens()[0])
            tick()
            if token == END:
                break
            said.append(token)
        self._held = [*ids, *said]
        return said


class Torch:
    """Plain PyTorch: the baseline, and at fp32 what the others are compared with."""

    def __init__(self, path: Path, threads: int = 2, dtype: str = "bfloat16") -> None:
        import torch
        import transformers

        torch.set_num_threads(threads)
        self._torch = torch
        self._model = transformers.AutoModelForCausalLM.from_pretrained(str(path), dtype=getattr(torch, dtype)).eval()
        self._cache, self._held = transformers.DynamicCache(config=self._model.config), list[int]()

    def warm(self, ids: Sequence[int]) -> int:
        """The likeliest token after `ids`; the cache is cut back to what it shares with them."""
        at = min(_common(self._held, ids), len(ids) - 1)
        if len(self._held) > at:
            self._cache.crop(at - len(self._held))
        with self._torch.inference_mode():
            logits = self._model(self._torch.tensor([list(ids[at:])]), past_key_values=self._cache).logits
        self._held = list(ids)
        return int(logits[0, -1].argmax())

    def reply(self, ids: Sequence[int], limit: int, tick: Tick) -> list[int]:
        said: list[int] = []
        while len(said) < limit:
            token = self.warm([*ids, *said])
            tick()
            if token == END:
                break
            said.append(token)
        return said


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


_LLAMA = ("xllamacpp",)
_OPENVINO = ("openvino_genai",)
_TORCH = ("transformers", "torch")
WAYS: dict[str, Way] = {
    "xllamacpp": Way(LlamaCpp, "", _LLAMA),
    "xllamacpp-1-thread": Way(LlamaCpp, "", _LLAMA, {"threads": 1}),
    "xllamacpp-spinning": Way(LlamaCpp, "", _LLAMA, {"wait": "active"}),
    "xllamacpp-flash-on": Way(LlamaCpp, "", _LLAMA, {"flash_attn_type": 1}),
    "xllamacpp-flash-off": Way(LlamaCpp, "", _LLAMA, {"flash_attn_type": 0}),
    "xllamacpp-kv-q8": Way(LlamaCpp, "", _LLAMA, {"flash_attn_type": 1, "cache_type_k": 8, "cache_type_v": 8}),
    "xllamacpp-batch-16": Way(LlamaCpp, "", _LLAMA, {"n_batch": 16, "n_ubatch": 16}),
    "xllamacpp-lookup-3": Way(LlamaCpp, "", _LLAMA, {"speculate": 3}),
    "xllamacpp-q8_0": Way(LlamaCpp, "q8_0.gguf", _LLAMA),
    "xllamacpp-q5_0": Way(LlamaCpp, "q5_0.gguf", _LLAMA),
    "xllamacpp-q4_0": Way(LlamaCpp, "q4_0.gguf", _LLAMA),
    "onnxruntime-q4_1": Way(Onnx, "", ("onnx",)),
    "onnxruntime-q4_1-1-thread": Way(Onnx, "", ("onnx",), {"threads": 1}),
    "ctranslate2-int8": Way(CTranslate2, "ct2", ("ctranslate2",)),
    "openvino-q4_1": Way(OpenVino, "", _OPENVINO),
    "openvino-q8_0": Way(OpenVino, "q8_0.gguf", _OPENVINO),
    "ort-genai-int4": Way(OrtGenai, "ort-int4", ("onnxruntime_genai",)),
    "ort-genai-int4-k": Way(OrtGenai, "ort-int4-k", ("onnxruntime_genai",)),
    "ort-genai-int4-k-1-thread": Way(OrtGenai, "ort-int4-k", ("onnxruntime_genai",), {"threads": 1}),
    "ort-genai-int8": Way(OrtGenai, "ort-int8", ("onnxruntime_genai",)),
    "torch-bf16": Way(Torch, "hf", _TORCH),
    "torch-fp32": Way(Torch, "hf", _TORCH, {"dtype": "float32"}),
}
