"""The playout: a priority queue of reply audio ordered by turn and media time, behind a gate.

Audio of a draft waits here until its turn is committed (`open`); taking the floor clears it. Every method is called
with the floor's lock held, so that what plays and who may speak change together. Source of the idea: a WebRTC
jitter buffer, with media time instead of RTP sequence numbers.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pipeline.ports import PLAYOUT_RATE
from pipeline.turn import Tag

Pcm16 = npt.NDArray[np.int16]

SOUNDING = 104  # int16 amplitude, -50 dBFS: what is softer is silence


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of a reply's audio."""

    tag: Tag
    at: int  # media time: samples at 48 kHz since the start of the reply
    phrase: int  # index of the phrase it belongs to
    samples: Pcm16  # shape (n,), 48 kHz mono


@dataclass(frozen=True, slots=True)
class Pulled:
    """One outbound frame and what it meant."""

    samples: Pcm16  # shape (n,)
    sounded: int | None = None  # offset of the reply's first sounding sample, in the one frame that holds it
    underrun: bool = False  # the reply ran dry here and was not over
    drained: Tag | None = None  # the reply that ended within this frame


@dataclass(slots=True)
class Playout:
    """Holds Pieces; gives out frames. Counts underruns (once a gap) and drops."""

    underruns: int = 0
    dropped: int = 0  # pieces pushed for a turn that was over
    _heap: list[tuple[Tag, int, int, Piece]] = field(default_factory=list)
    _order: int = 0
    _open: Tag | None = None
    _finished: Tag | None = None
    _sounded: bool = False
    _dry: bool = False
    _held: int = 0  # samples for which nothing is let out
    _offset: int = 0  # samples of the heap's first piece already played
    _played: dict[int, int] = field(default_factory=dict)  # phrase -> samples played

    def push(self, piece: Piece) -> None:
        """Queue a piece, in any order; of a turn older than the open one it is dropped."""
        if self._open is not None and piece.tag < self._open:
            self.dropped += 1
            return
        # The piece being played stays first even when an earlier one turns up late.
        at = piece.at
        if self._offset and self._heap and (piece.tag, at) < self._heap[0][:2]:
            at = self._heap[0][1]
        self._order += 1
        heapq.heappush(self._heap, (piece.tag, at, self._order, piece))

    def open(self, tag: Tag) -> None:
        """Let this turn's audio out, held back until now."""
        self._open = tag

    def hold(self, n: int) -> None:
        """Let silence out for the next n samples, and go on from here after it."""
        self._held = n

    def finish(self, tag: Tag) -> None:
        """No more pieces come for this turn; when the queue is empty it is over."""
        self._finished = tag

    def clear(self) -> dict[int, int]:
        """Silence at once. Returns the samples played of each phrase of what was playing."""
        played = self._played
        self._heap.clear()
        self._open = self._finished = None
        self._sounded = self._dry = False
        self._offset = self._held = 0
        self._played = {}
        return played

    @property
    def sounding(self) -> bool:
        """Whether a reply has been released and is not over."""
        return self._sounded

    @property
    def waiting(self) -> bool:
        """Whether there is audio still to be played."""
        return bool(self._heap)

    def pull(self, n: int) -> Pulled:
        """The next n samples: the open reply's audio, silence where there is none."""
        out = np.zeros(n, np.int16)
        if self._held > 0:
            self._held -= n
            return Pulled(out)
        if self._open is None:
            return Pulled(out)
        filled = 0
        while filled < n and self._heap and self._heap[0][0] == self._open:
            filled = self._copy(out, filled)
        if filled:
            self._dry = False
        sounded = self._first_sound(out[:filled])
        if filled == n:
            return Pulled(out, sounded)
        if self._finished == self._open:
            drained = self._open
            self._open = None
            self._sounded = False
            return Pulled(out, sounded, drained=drained)
        underrun = self._sounded and not self._dry
        if underrun:
            self.underruns += 1
            self._dry = True
        return Pulled(out, sounded, underrun=underrun)

    def _copy(self, out: Pcm16, filled: int) -> int:
        piece = self._heap[0][3]
        count = min(len(piece.samples) - self._offset, len(out) - filled)
        out[filled : filled + count] = piece.samples[self._offset : self._offset + count]
        self._offset += count
        self._played[piece.phrase] = self._played.get(piece.phrase, 0) + count
        if self._offset >= len(piece.samples):
            heapq.heappop(self._heap)
            self._offset = 0
        return filled + count

    def _first_sound(self, samples: Pcm16) -> int | None:
        if self._sounded or not len(samples):
            return None
        loud = np.flatnonzero((samples > SOUNDING) | (samples < -SOUNDING))
        if not len(loud):
            return None
        self._sounded = True
        return int(loud[0])


def seconds(samples: int) -> float:
    """Length of `samples` at the playout's rate."""
    return samples / PLAYOUT_RATE
