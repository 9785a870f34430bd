"""SmolLM2-135M-Instruct (Apache-2.0, HuggingFaceTB) on onnxruntime (MIT): the same file as the engine smollm2.

Prefill is what a short reply on a warm prefix waits for, and onnxruntime's four-bit kernels compute it faster than
llama.cpp's (docs/performance.md); the package is loaded for recognition anyway, and its threads do not spin.

A conversation's keys and values lie in memory of ours that the runtime fills in place. Going back to a common
beginning is a smaller number; what `warm` computed is copied into any slot.
"""

from __future__ import annotations

import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pipeline.engines.byte_pairs import BytePairs, whole_characters
from pipeline.engines.chatml import ENDINGS, chatml, chatml_upto
from pipeline.engines.gguf_file import Floats, read
from pipeline.engines.llama_onnx import EMBEDDINGS, HELD, SCORES, TOTAL, Shape, cache_names, graph, shape_of
from pipeline.engines.ort import open_session
from pipeline.engines.registry import Kind, row
from pipeline.engines.weights import locate
from pipeline.errors import Code, EngineError
from pipeline.ports import Cancel, EngineOptions, Message, ReplyLimits, Role, never
from pipeline.priority import made_by_a_nice_thread

Ids: TypeAlias = Sequence[int]

SLOTS = 4  # conversations that keep a state of their own
CONTEXT = 1024  # tokens of one conversation, 46 kB of memory each once they are used
CHUNK = 32  # tokens of a prompt computed at once: cancel() is looked at between chunks, 100 to 200 ms
PREFIXES = 4  # prefixes kept for any slot, 7 MB for one of 150 tokens
POLL_S = 0.01  # how often whoever waits for a slot looks at cancel()
AGAIN = "start the conversation again"


def build(options: EngineOptions) -> Smollm2Ort:
    """The engine, loaded. EngineError: as in weights.locate, or LLM_FAILED. ImportError without onnx or tokenizers."""
    (weight,) = row(Kind.LLM, "smollm2-ort").weights
    path = locate(weight, options)
    return made_by_a_nice_thread(lambda: Smollm2Ort(path, options.threads), options.settings.llm_nice)


class Smollm2Ort:
    """Shared by every visitor; thread-safe. The runtime takes the visitors' steps in turn, a token each."""

    name = "smollm2-ort"

    def __init__(self, model: Path, threads: int = 2, slots: int = SLOTS) -> None:
        try:
            meta, weights = read(model)
            self._words = BytePairs(meta)
            session = _opened(graph(meta, weights, CONTEXT), threads)
            scales, steps = weights["token_embd.weight"].steps()
        except (OSError, ValueError, KeyError) as error:
            what = f"onnxruntime did not load {model.name}: {error}"
            raise EngineError(Code.LLM_FAILED, what, "python -m pipeline doctor") from error
        shape = shape_of(meta)
        self._slots = [_Slot(session, shape, scales, steps) for _ in range(slots)]
        self._endings = np.array([_ends(self._words, i) for i in range(len(self._words.names))])
        self._free = threading.Condition()
        self._uses = 0
        self._prefixes: OrderedDict[tuple[int, ...], Floats] = OrderedDict()
        self._chance = np.random.default_rng()

    def warm_up(self) -> None:
        for _ in self.reply([Message(Role.USER, "Hello")], never, ReplyLimits(max_tokens=2)):
            pass

    def warm(self, prefix: Sequence[Message]) -> None:
        """Compute `prefix` once; every conversation that begins with it starts from there. Blocks, 3 ms a token."""
        ids = self._words.ids(chatml(prefix))
        if not ids:
            return
        with self._free:
            if tuple(ids) in self._prefixes:
                self._prefixes.move_to_end(tuple(ids))
                return
        self._refuse_too_long(ids)
        with self._slot(ids, never) as slot:
            if slot is None:
                return
            slot.prefill(ids, never, redo_last=False)
            kept = slot.copied()
        with self._free:
            self._prefixes[tuple(ids)] = kept
            while len(self._prefixes) > PREFIXES:
                self._prefixes.popitem(last=False)

    def completeness(self, opening: Sequence[Message], said: str) -> float | None:
        """P(a sentence ends after `said`): the share of next tokens that end one. Costs the prefill of `said`.

        None when nothing was said, or it is too long for the context.
        """
        prompt = chatml_upto(opening, said)
        if prompt is None:
            return None
        ids = self._words.ids(prompt)
        try:
            self._refuse_too_long(ids)
            with self._slot(ids, never) as slot:
                scores = slot.prefill(ids, never) if slot is not None else None
        except EngineError:
            return None  # a hint only: the reply to the same words will say what is wrong
        return None if scores is None else float(min(_shares(scores)[self._endings].sum(), 1.0))

    def reply(self, messages: Sequence[Message], cancel: Cancel, limits: ReplyLimits) -> Iterator[str]:
        """Deltas as they are made, each computed when it is asked for. EngineError LLM_FAILED.

        Closing the iterator frees its slot.
        """
        if cancel():
            return
        ids = self._words.ids(chatml(messages, Role.ASSISTANT))
        self._refuse_too_long(ids)
        text = whole_characters()
        with self._slot(ids, cancel) as slot:
            scores = slot.prefill(ids, cancel) if slot is not None else None
            for made in range(limits.max_tokens):
                if slot is None or scores is None or cancel():
                    return
                token = self._next(scores, limits.temperature)
                if token in self._words.marks:
                    return
                delta, stop, _ = text.decode(self._words.bytes[token]).partition("\n")
                if delta:
                    yield delta
                if stop or made + 1 == limits.max_tokens or len(slot.held) >= CONTEXT or cancel():
                    return
                scores = slot.step([token])

    def _next(self, scores: Floats, temperature: float) -> int:
        if temperature <= 0.0:
            return int(scores.argmax())
        with self._free:
            return int(self._chance.choice(scores.size, p=_shares(scores / temperature)))

    def _refuse_too_long(self, ids: Ids) -> None:
        if len(ids) >= CONTEXT:
            raise EngineError(Code.LLM_FAILED, f"{len(ids)} tokens are more than SmolLM2's {CONTEXT} here", AGAIN)

    @contextmanager
    def _slot(self, ids: Ids, cancel: Cancel) -> Iterator[_Slot | None]:
        """The free slot holding most of `ids`, or one given a warmed prefix; None when cancelled while all are busy.

        EngineError LLM_FAILED for whatever the runtime raises inside.
        """
        with self._free:
            while not (free := [s for s in self._slots if not s.busy]) and not cancel():
                self._free.wait(POLL_S)
            prefix, rows = self._prefix_of(ids)
            # Where a slot holds no more than a warmed prefix, that is copied: no conversation is given up for it.
            slot = max(free, key=lambda s: (max(_common(s.held, ids), len(prefix)), not s.held, -s.used), default=None)
            if slot is not None:
                self._uses += 1
                slot.busy, slot.used = True, self._uses
        try:
            if slot is not None and rows is not None and len(prefix) > _common(slot.held, ids):
                slot.start_from(prefix, rows)
            yield slot
        except EngineError:
            raise
        except Exception as error:  # onnxruntime raises a dozen unrelated classes
            if slot is not None:
                slot.forget()
            raise EngineError(Code.LLM_FAILED, f"the language model failed: {error}", AGAIN) from error
        finally:
            if slot is not None:
                with self._free:
                    slot.busy = False
                    self._free.notify()

    def _prefix_of(self, ids: Ids) -> tuple[Ids, Floats | None]:
        """The longest warmed prefix of `ids` and its keys and values."""
        prefix = max((p for p in self._prefixes if tuple(ids[: len(p)]) == p), key=len, default=())
        return prefix, self._prefixes.get(prefix)


class _Slot:
    """One conversation's keys and values, and the runtime bound to them. Used by one thread at a time."""

    def __init__(self, session: Any, shape: Shape, scales: Floats, steps: npt.NDArray[np.int8]) -> None:
        from onnxruntime import OrtValue

        self._session, self._scales, self._steps = session, scales, steps
        # Of zeros nobody has written the system gives memory only where a token comes to lie.
        self._rows = np.zeros((2 * shape.layers, 1, shape.kv_heads, CONTEXT, shape.head), np.float32)
        self._bound = session.io_binding()
        self._memory = [OrtValue.ortvalue_from_numpy(rows) for rows in self._rows]  # no copy; kept alive by this list
        for memory, past, present in zip(self._memory, *cache_names(shape.layers), strict=True):
            self._bound.bind_ortvalue_input(past, memory)
            self._bound.bind_ortvalue_output(present, memory)
        self._bound.bind_output(SCORES)
        self.held: list[int] = []  # the tokens whose keys and values are there
        self.busy, self.used = False, 0

    def prefill(self, ids: Ids, cancel: Cancel, redo_last: bool = True) -> Floats | None:
        """Scores after `ids`, of which only what is not held is computed; None when cancelled, or nothing was left.

        `redo_last`: where all is held, the last token is computed again for its scores.
        """
        at = min(_common(self.held, ids), len(ids) - 1 if redo_last else len(ids))
        del self.held[at:]
        scores = None
        for start in range(at, len(ids), CHUNK):
            if cancel():
                return None
            scores = self.step(ids[start : start + CHUNK])
        return scores

    def step(self, ids: Ids) -> Floats:
        """Scores after `ids`, which follow what is held."""
        chosen, total = np.asarray(ids), len(self.held) + len(ids)
        embeddings = (self._steps[chosen] * self._scales[chosen][..., None]).reshape(len(ids), -1)
        self._bound.bind_cpu_input(EMBEDDINGS, embeddings)
        self._bound.bind_cpu_input(HELD, np.array([total - 1], np.int32))
        self._bound.bind_cpu_input(TOTAL, np.array(total, np.int32))
        self._session.run_with_iobinding(self._bound)
        self.held += ids
        return np.asarray(self._bound.get_outputs()[-1].numpy()[0])

    def copied(self) -> Floats:
        """Keys and values of what is held."""
        return self._rows[..., : len(self.held), :].copy()

    def start_from(self, ids: Ids, rows: Floats) -> None:
        self._rows[..., : len(ids), :] = rows
        self.held = list(ids)

    def forget(self) -> None:
        self.held = []


def _opened(model: bytes, threads: int) -> Any:
    """A session on `model`, by way of a file: given bytes, onnxruntime keeps them all, 110 MB beside its own copy."""
    with tempfile.TemporaryDirectory(prefix="turnaround-") as folder:
        path = Path(folder) / "smollm2.onnx"
        path.write_bytes(model)
        return open_session(path, threads)


def _common(a: Ids, b: Ids) -> int:
    """Length of the common beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def _shares(scores: Floats) -> Floats:
    raised = np.exp(scores.astype(np.float64) - float(scores.max()))
    return np.asarray(raised / raised.sum())


def _ends(words: BytePairs, token: int) -> bool:
    text = words.names[token] if token in words.marks else words.bytes[token].decode("utf-8", "replace")
    return text.startswith(ENDINGS)
