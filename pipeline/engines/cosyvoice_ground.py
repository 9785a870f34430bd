"""Keeps CosyVoice's streaming from doing what it does when nobody looks. Found by running it, cured from outside:

- the hop before a chunk doubles with every chunk and stays so: it is set anew for each phrase;
- an error in its language model's thread leaves the listener waiting for ever: it is caught, and raised to them;
- a listener who leaves does not stop that thread, nor free its entries: both happen here;
- its cached step passes a mask that transformers from 4.53 on misreads, and reads `cache[0]`, which is gone;
- it looks for new tokens ten times a second: here a hundred times.

One phrase at a time: upstream's hop and caches are shared by everybody.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipeline.engines.pump import Put, pumped
from pipeline.errors import Code, EngineError
from pipeline.ports import Cancel, Samples

_POLL_S = 0.01
_LEAVE_S = 1.0  # how long a language model may take to notice that nobody listens (it looks at every token)
_STUCK_MOST = 2  # threads that never came back before the model is given up


class Stopped(Exception):
    """Nobody listens any more."""


@dataclass(slots=True, eq=False)
class Request:
    """One phrase under way."""

    stop: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)  # its own thread has ended
    error: BaseException | None = None  # out of the language model's thread
    ids: list[str] = field(default_factory=list)  # what upstream calls it, once for each part of the text
    thinking: set[str] = field(default_factory=set)  # of these, whose language model's thread has not ended


class Mended:
    """One upstream model; `stream` may be called by any number of visitors, who wait for each other."""

    def __init__(self, upstream: Any, first_hop: int) -> None:
        """`first_hop`: speech tokens before the first chunk, 25 a second."""
        self._upstream = upstream
        self._model: Any = upstream.model
        self._first_hop = first_hop
        self._turn = threading.Lock()
        self._books = threading.Condition()
        self._current = Request()
        self._requests: dict[str, Request] = {}
        self.rate = int(upstream.sample_rate)
        self._watch_thread()
        self._watch_tokens()
        self._watch_sound()
        mend_step(self._model.llm)
        mend_cache()
        self._look_often()

    @property
    def stuck(self) -> int:
        """Threads of upstream's that should have ended and have not."""
        with self._books:
            return sum(r is not self._current and bool(r.thinking) for r in set(self._requests.values()))

    def stream(
        self, begin: Callable[[Any], Iterator[Any]], cancel: Cancel, patience_s: float, name: str
    ) -> Iterator[Samples]:
        """What `begin(upstream)` speaks, as float32 of shape (n,), chunk by chunk.

        EngineError TTS_FAILED (upstream raised, or hangs for good), TTS_TIMEOUT (no chunk for `patience_s` seconds).
        """
        while not self._turn.acquire(timeout=_POLL_S):
            if cancel():
                return
        if self.stuck > _STUCK_MOST:
            self._turn.release()
            raise EngineError(Code.TTS_FAILED, "CosyVoice hangs and does not come back", "start the server again")
        request = self._current = Request()

        def read(put: Put[Samples]) -> None:
            try:
                self._read(request, begin, put)
            finally:
                self._settle(request)
                self._free(request)

        def late() -> EngineError:
            what = f"CosyVoice gave no sound for {patience_s:g} s"
            return EngineError(Code.TTS_TIMEOUT, what, "raise tts_timeout_s, or use a faster machine")

        def leave() -> None:
            request.stop.set()
            threading.Thread(target=self._give_up, args=(request,), name=f"{name}-leaving", daemon=True).start()

        yield from pumped(read, leave, cancel, patience_s, late, name)

    def register(self, prompt: str, wav: str, speaker: str) -> None:
        """Let upstream take in a voice once, under the name `speaker`. It keeps it in memory only."""
        self._upstream.add_zero_shot_spk(prompt, wav, speaker)

    # -- one request, in its own thread

    def _read(self, request: Request, begin: Callable[[Any], Iterator[Any]], put: Put[Samples]) -> None:
        self._model.token_hop_len = self._first_hop
        pieces = begin(self._upstream)
        try:
            for piece in pieces:
                if request.stop.is_set() or request.error is not None:
                    break
                if not put(np.asarray(piece["tts_speech"], np.float32).ravel()):
                    break
        except Stopped:
            pass
        except Exception as error:
            if request.error is None and not request.stop.is_set():
                raise EngineError(Code.TTS_FAILED, f"CosyVoice: {_said(error)}", "ask again") from error
        finally:
            request.stop.set()
            close = getattr(pieces, "close", None)
            if close is not None:
                close()
        if request.error is not None:
            raise EngineError(Code.TTS_FAILED, f"CosyVoice's language model: {_said(request.error)}", "ask again")

    def _settle(self, request: Request) -> None:
        """Wait until upstream's threads of this request have ended, and let go what upstream kept of it."""
        with self._books:
            self._books.wait_for(lambda: not request.thinking, _LEAVE_S)
            for name in request.ids:
                self._forget(name)
        request.over.set()

    def _free(self, request: Request) -> None:
        """The next one's turn; only once, whoever says it first."""
        with self._books:
            if self._current is not request:
                return
            self._current = Request()
        self._turn.release()

    def _give_up(self, request: Request) -> None:
        """A thread that does not come back must not keep everybody else waiting."""
        if request.over.wait(2 * _LEAVE_S):
            return
        with self._books:
            for name in request.ids:
                self._forget(name)  # which ends upstream's own waiting, with a KeyError
        self._free(request)

    def _forget(self, name: str) -> None:
        for attribute, kept in vars(self._model).items():
            if attribute.endswith("_dict") and isinstance(kept, dict):
                kept.pop(name, None)
        if name not in self._thinking():
            self._requests.pop(name, None)

    def _thinking(self) -> set[str]:
        return {name for request in self._requests.values() for name in request.thinking}

    # -- what is put around upstream's own methods

    def _watch_thread(self) -> None:
        """Errors of the language model's thread are kept, and it always says that it has ended."""
        original = self._model.llm_job

        def llm_job(text: Any, prompt: Any, tokens: Any, embedding: Any, uuid: str) -> None:
            with self._books:
                request = self._requests[uuid] = self._current
                request.ids.append(uuid)
                request.thinking.add(uuid)
            try:
                original(text, prompt, tokens, embedding, uuid)
            except BaseException as error:
                request.error = error
            finally:
                with self._books:
                    request.thinking.remove(uuid)
                    if request.over.is_set() or self._current is not request:
                        self._forget(uuid)  # everybody else had gone
                    else:
                        self._model.llm_end_dict[uuid] = True
                    self._books.notify_all()

        self._model.llm_job = llm_job

    def _watch_tokens(self) -> None:
        """The language model stops at its next token when nobody listens."""
        original = self._model.llm.inference

        def inference(*args: Any, **more: Any) -> Iterator[Any]:
            request = self._request(more)
            for token in original(*args, **more):
                if request.stop.is_set():
                    return
                yield token

        self._model.llm.inference = inference

    def _watch_sound(self) -> None:
        """No sound is made of tokens that nobody waits for, or that an error cut off."""
        original = self._model.token2wav

        def token2wav(*args: Any, **more: Any) -> Any:
            request = self._request(more)
            if request.stop.is_set() or request.error is not None:
                raise Stopped
            return original(*args, **more)

        self._model.token2wav = token2wav

    def _request(self, more: dict[str, Any]) -> Request:
        with self._books:
            return self._requests.get(str(more.get("uuid", "")), self._current)

    def _look_often(self) -> None:
        """Upstream sleeps 100 ms between two looks at the tokens: half of that would be in every first chunk."""
        module: Any = sys.modules[type(self._model).__module__]
        if hasattr(module, "time"):
            module.time = _Impatient()


class _Impatient:
    """Stands where upstream's model expects the module `time`, of which it calls `sleep` alone."""

    @staticmethod
    def sleep(seconds: float) -> None:
        threading.Event().wait(min(seconds, _POLL_S))


def mend_step(lm: Any) -> None:
    """The cached step without its mask: the new tokens may look at all that came before, which is the default.

    Upstream gives a mask as long as the new tokens; transformers from 4.53 on takes it for the whole length.
    """
    encoder = lm.llm

    def forward_one_step(xs: Any, masks: Any, cache: Any = None) -> tuple[Any, Any]:
        out = encoder.model(
            inputs_embeds=xs,
            attention_mask=None,
            output_hidden_states=True,
            return_dict=True,
            use_cache=True,
            past_key_values=cache,
        )
        return out.hidden_states[-1], out.past_key_values

    encoder.forward_one_step = forward_one_step


def mend_cache() -> None:
    """`cache[i]` gives a layer's keys and values again, which transformers 5 took away and upstream still asks for."""
    transformers = sys.modules.get("transformers")
    cache = getattr(transformers, "DynamicCache", None)
    if cache is None or hasattr(cache, "__getitem__"):
        return

    def layer(self: Any, i: int) -> tuple[Any, Any]:
        return self.layers[i].keys, self.layers[i].values

    cache.__getitem__ = layer


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
