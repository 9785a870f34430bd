"""Shapes a stream of speech as the port asks for it: no silence before it, none after it, short pieces, a soft start.

A voice's packets come in any size. Silence is held back until speech follows: inside a phrase it is a pause and is
handed on, at the phrase's end it is let go.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field

import numpy as np

from pipeline.audio import from_int16
from pipeline.errors import EngineError
from pipeline.ports import Cancel, Samples

_AUDIBLE = 10.0 ** (-45.0 / 20.0)  # -45 dBFS
_PIECE_S = 0.2  # a barge-in waits for one piece at most
_LEAD_S = 0.005  # kept before the first audible sample
_TAIL_S = 0.12  # kept after the last one
_FADE_S = 0.02  # the first packet of a neural voice begins with a click
_PAUSE_S = 2.0  # a longer silence is handed on as it comes


def _nothing() -> Samples:
    return np.zeros(0, np.float32)


@dataclass(slots=True)
class Shape:
    """One phrase at `rate` Hz."""

    rate: int
    _held: Samples = field(default_factory=_nothing)  # silence that may be a pause
    _given: int = 0  # samples handed on

    def feed(self, samples: Samples) -> Iterator[Samples]:
        """The pieces that can be played now, of at most 200 ms."""
        audio = np.concatenate([self._held, samples])
        loud = np.flatnonzero(np.abs(audio) > _AUDIBLE)
        if not loud.size:
            self._held = audio if self._given else audio[-self._count(_LEAD_S) :]
            if self._given and self._held.size > self._count(_PAUSE_S):
                yield from self._give(self._held)
                self._held = _nothing()
            return
        start = 0 if self._given else max(0, int(loud[0]) - self._count(_LEAD_S))
        end = int(loud[-1]) + 1
        self._held = audio[end:].copy()
        yield from self._give(audio[start:end])

    def finish(self) -> Iterator[Samples]:
        """The phrase is over: a short fading tail, where anything was heard at all."""
        tail = self._held[: self._count(_TAIL_S)]
        self._held = _nothing()
        if self._given and tail.size:
            yield from self._give(tail * np.linspace(1.0, 0.0, tail.size, dtype=np.float32))

    def _give(self, audio: Samples) -> Iterator[Samples]:
        fade = self._count(_FADE_S)
        if self._given < fade:
            ramp = np.clip((self._given + np.arange(audio.size, dtype=np.float32)) / np.float32(fade), 0.0, 1.0)
            audio = audio * ramp
        self._given += audio.size
        piece = self._count(_PIECE_S)
        for at in range(0, audio.size, piece):
            yield np.clip(audio[at : at + piece], -1.0, 1.0).astype(np.float32)

    def _count(self, seconds: float) -> int:
        return round(seconds * self.rate)


@dataclass(slots=True)
class Pcm16Bytes:
    """Little-endian int16 out of packets that may end in the middle of a sample."""

    _odd: bytes = b""

    def feed(self, packet: bytes) -> Samples:
        """The whole samples so far, float32, shape (n,)."""
        joined = self._odd + packet
        whole = len(joined) // 2 * 2
        self._odd = joined[whole:]
        return from_int16(np.frombuffer(joined[:whole], "<i2"))


def voiced(
    packets: Generator[bytes, None, None], rate: int, cancel: Cancel, silent: Callable[[], EngineError]
) -> Generator[Samples, None, None]:
    """The shaped pieces of a phrase that a server sends as int16; closes `packets`. Raises `silent()` for no sound."""
    shape, pcm, given = Shape(rate), Pcm16Bytes(), False
    try:
        for packet in packets:
            for piece in shape.feed(pcm.feed(packet)):
                if cancel():
                    return
                given = True
                yield piece
        if not cancel():
            yield from shape.finish()
    finally:
        packets.close()
    if not given and not cancel():
        raise silent()
