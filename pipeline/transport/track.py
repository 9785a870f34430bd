"""The outbound track: one frame a slot, filled at the last moment by the session."""

from __future__ import annotations

import asyncio
import fractions
import logging
from dataclasses import dataclass
from typing import Any, Protocol

import av
import numpy as np
import numpy.typing as npt
from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError

from pipeline.clock import Clock
from pipeline.ports import PLAYOUT_RATE

log = logging.getLogger(__name__)

STALL_S = 0.2  # a later slot than this is a stall: its audio is skipped, not sent in a burst


class Voice(Protocol):
    """What the track plays: a Session, or whatever stands for one."""

    def pull(self, n: int) -> npt.NDArray[np.int16]: ...

    def slot(self, late_s: float) -> None: ...


@dataclass(slots=True)
class Pacer:
    """When the next frame is due, and its media time. Pure: it is told the time.

    After a stall the RTP clock jumps over what was missed: a burst that catches up would sit in the browser's jitter
    buffer as latency for many seconds.
    """

    samples: int  # a frame's
    rate: int = PLAYOUT_RATE  # Hz
    pts: int = 0  # media time of the frame in hand, in samples
    origin: float | None = None  # seconds: when pts 0 was due

    def wait(self, now: float) -> float:
        """Seconds until the next frame is due, 0 when it is due already. Moves on to that frame."""
        if self.origin is None:
            self.origin = now
            return 0.0
        self.pts += self.samples
        return max(0.0, self._due() - now)

    def woke(self, now: float) -> float:
        """The lateness in seconds of the frame in hand at `now`; after a stall the media time has jumped."""
        late = max(0.0, now - self._due())
        if late > STALL_S:
            self.pts += int(late * self.rate) // self.samples * self.samples
        return late

    def _due(self) -> float:
        assert self.origin is not None
        return self.origin + self.pts / self.rate


class PacedTrack(MediaStreamTrack):
    """s16 mono frames at 48 kHz, paced by `clock`; runs on the media loop. Stop it when the line is closed: a relay
    goes on reading a track that nobody stopped."""

    kind = "audio"

    def __init__(self, voice: Voice, clock: Clock, ptime_ms: int) -> None:
        super().__init__()
        self._voice = voice
        self._clock = clock
        self._pacer = Pacer(PLAYOUT_RATE * ptime_ms // 1000)
        self._complained = False

    async def recv(self) -> Any:
        """The next frame, at its slot. MediaStreamError once the track was stopped."""
        if self.readyState != "live":
            raise MediaStreamError
        wait = self._pacer.wait(self._clock.now())
        if wait > 0:
            await asyncio.sleep(wait)
        late = self._pacer.woke(self._clock.now())
        pcm = self._pull()
        frame = av.AudioFrame.from_ndarray(pcm.reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate = PLAYOUT_RATE
        frame.pts = self._pacer.pts
        frame.time_base = fractions.Fraction(1, PLAYOUT_RATE)
        self._report(late)
        return frame

    def _pull(self) -> npt.NDArray[np.int16]:
        # An exception or an odd shape here would end aiortc's sender without a word: silence goes out instead.
        n = self._pacer.samples
        try:
            pcm = self._voice.pull(n)
            if pcm.shape == (n,) and pcm.dtype == np.int16:
                return np.ascontiguousarray(pcm)
            self._complain("pull(%d) gave %s %s", n, pcm.shape, pcm.dtype)
        except Exception:
            self._complain("pull(%d) raised", n, exc_info=True)
        return np.zeros(n, np.int16)

    def _report(self, late: float) -> None:
        try:
            self._voice.slot(late)
        except Exception:
            self._complain("slot raised", exc_info=True)

    def _complain(self, what: str, *args: Any, exc_info: bool = False) -> None:
        if not self._complained:  # 50 lines a second would bury the cause
            self._complained = True
            log.error("outbound audio: " + what, *args, exc_info=exc_info)
