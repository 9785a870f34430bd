"""Keys and values of prompts computed before, so that a reply computes only what is new in its own.

What is kept goes by token numbers: a new prompt takes over the longest beginning that is equal, token by token, to
something kept, be it the scenario's prefix, this conversation up to its last turn, or another visitor's. A cache of
another prefix would give no error in transformers, only wrong replies; so a cache that does not hold exactly the tokens
it is kept under is refused, counted, and the prompt computed anew.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pipeline.engines.chat_ground import Chat, failing
from pipeline.errors import EngineError
from pipeline.ports import Cancel, Message, never

KEPT_TOKENS = 16_384  # of all kept prompts together: 0.2 GB for Qwen2.5-0.5B in 16 bits, 0.9 GB for 7B
CHUNK = 256  # tokens of a prompt computed between two looks at cancel()
OWN = 16  # a kept prompt with fewer tokens of its own beside a newer one is let go
POLL_S = 0.01

Ids: TypeAlias = npt.NDArray[np.int64]  # shape (n,)


@dataclass(frozen=True, slots=True)
class Counts:
    """What reuse has saved, since the engine was made."""

    reused: int = 0  # prompt tokens taken over
    computed: int = 0  # prompt tokens computed
    anew: int = 0  # prompts that found nothing to take over
    refused: int = 0  # kept caches that did not hold what they were kept under


class Turns:
    """Lets one thread compute at a time, first come first served: two passes at once on one CPU are slower than one
    after the other, and a plain lock lets whoever holds it take it again."""

    def __init__(self) -> None:
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def take(self, cancel: Cancel) -> Iterator[bool]:
        """Waits for its turn; False when cancel() came first."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            while self._waiting[0] is not ticket and not cancel():
                self._changed.wait(POLL_S)
            mine = self._waiting[0] is ticket and not cancel()
        try:
            yield mine
        finally:
            with self._changed:
                self._waiting.remove(ticket)
                self._changed.notify_all()


class Run:
    """One sequence being computed by one thread; its cache is its own."""

    def __init__(self, chat: Chat, turns: Turns, ids: Sequence[int], cache: Any) -> None:
        self.ids = list(ids)  # what the cache holds
        self.cache = cache
        self._chat = chat
        self._turns = turns

    def feed(self, ids: Sequence[int], cancel: Cancel) -> Any | None:
        """Logits after `ids`, shape (vocabulary,), float32; None when cancelled. Looks at cancel() every CHUNK."""
        import torch

        logits = None
        for at in range(0, len(ids), CHUNK):
            chunk = list(ids[at : at + CHUNK])
            with self._turns.take(cancel) as mine:
                if not mine:
                    return None
                with torch.inference_mode():
                    given = torch.tensor([chunk], device=self._chat.device)
                    out = self._chat.model(
                        input_ids=given, past_key_values=self.cache, use_cache=True, logits_to_keep=1
                    )
                    logits = out.logits[0, -1].float()
            self.ids += chunk
        return logits


class _Kept:
    """What a run held when it ended. Its cache is never changed again."""

    def __init__(self, ids: Ids, cache: Any) -> None:
        from transformers.cache_utils import DynamicLayer

        self.ids = ids
        self._cache = cache
        self.plain = all(type(layer) is DynamicLayer for layer in cache.layers)  # no window, no state that only grows
        self._layers = [layer for layer in cache.layers if isinstance(layer, DynamicLayer)]

    def sound(self) -> bool:
        """Whether every layer holds as many tokens as it should: a pass that failed half way leaves some behind."""
        return all(layer.get_seq_length() == self.ids.size for layer in self._layers)

    def usable(self, wanted: Ids) -> int:
        """How much of `wanted` can be taken over, but for its last token: the logits come out of that."""
        length = min(_common(self.ids, wanted), wanted.size - 1)
        return length if self.plain or length == self.ids.size else 0

    def beginning(self, length: int) -> Any:
        """A cache with the first `length` tokens, that can grow without touching this one."""
        if self.plain:
            # Plain layers replace their tensors when they grow or shrink and never write into them. Sharing them until
            # then saves a copy (5 ms for 256 tokens of a 0.5B model) of what the next token copies anyway.
            cache = copy.copy(self._cache)
            cache.layers = [copy.copy(layer) for layer in self._cache.layers]
        else:
            cache = copy.deepcopy(self._cache)
        if length < self.ids.size:
            cache.crop(length - self.ids.size)  # the count to remove, as a negative number
        return cache


class Prefixes:
    """The kept prompts of one model. Thread-safe."""

    def __init__(self, chat: Chat, tokens: int = KEPT_TOKENS) -> None:
        self._chat = chat
        self._most = tokens
        self._turns = Turns()
        self._kept: list[_Kept] = []  # the one used last is last
        self._counts = Counts()
        self._lock = threading.Lock()

    @property
    def counts(self) -> Counts:
        return self._counts

    @property
    def tokens(self) -> int:
        """Tokens kept at present."""
        with self._lock:
            return sum(k.ids.size for k in self._kept)

    def begin(self, prompt: Sequence[int]) -> Run:
        """A run that holds as much of `prompt` as is kept, but for its last token at least."""
        wanted = np.asarray(prompt, np.int64)
        with self._lock:
            cache, reused = self._take_over(wanted)
            self._counts = replace(
                self._counts,
                reused=self._counts.reused + reused,
                computed=self._counts.computed + wanted.size - reused,
                anew=self._counts.anew + (reused == 0),
            )
        return Run(self._chat, self._turns, prompt[:reused], cache)

    def keep(self, run: Run) -> None:
        """Keep what `run` holds; it is not to be fed again. The prompts used least lately make room."""
        new = _Kept(np.asarray(run.ids, np.int64), run.cache)
        if not new.ids.size or not new.sound():
            return
        with self._lock:
            if any(_common(k.ids, new.ids) == new.ids.size for k in self._kept):
                return
            self._kept = [k for k in self._kept if not k.plain or k.ids.size - _common(k.ids, new.ids) >= OWN]
            self._kept.append(new)
            while sum(k.ids.size for k in self._kept) > self._most:
                del self._kept[0]

    def ahead(self, prompt: Sequence[int]) -> Any:
        """Logits after `prompt`, shape (vocabulary,); kept for what will begin with it. EngineError LLM_FAILED."""
        run = self.begin(prompt)
        try:
            with failing():
                return run.feed(prompt[len(run.ids) :], never)
        finally:
            self.keep(run)

    def completeness(self, opening: Sequence[Message], said: str) -> float | None:
        """P(a sentence ends after `said`); None when nothing was said, or the model cannot be asked."""
        try:
            ids = self._chat.prompt_upto(opening, said)
            return self._chat.ending(self.ahead(ids)) if ids else None
        except EngineError:
            return None  # a hint only: the reply to the same words will say what is wrong

    def _take_over(self, wanted: Ids) -> tuple[Any, int]:
        """The cache of the longest beginning of `wanted` that is kept, and its length."""
        from transformers import DynamicCache

        while self._kept:
            best = max(self._kept, key=lambda k: k.usable(wanted))
            length = best.usable(wanted)
            if not length:
                break
            self._kept.remove(best)
            if best.sound():
                self._kept.append(best)
                return best.beginning(length), length
            self._counts = replace(self._counts, refused=self._counts.refused + 1)
        return DynamicCache(config=self._chat.model.config), 0


def _common(a: Ids, b: Ids) -> int:
    """Length of the common beginning."""
    n = min(a.size, b.size)
    differ = np.flatnonzero(a[:n] != b[:n])
    return int(differ[0]) if differ.size else n
