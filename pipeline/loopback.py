"""A caller without a browser: plays a clip into a session in real time and records what the session says.

The same pace as the WebRTC path: 10 ms captured at a time, 20 ms frames pulled. Used by the bench, and by the page for
visitors without a microphone.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pipeline.audio import noise
from pipeline.clock import Clock
from pipeline.playout import Pcm16
from pipeline.ports import CAPTURE_RATE, PLAYOUT_RATE, Chunk, Samples

CAPTURE_MS = 10
FRAME_MS = 20
FLOOR_DBFS = -62.0  # a quiet room after the clip; a microphone never delivers digital silence
LONGEST_TAIL_S = 30.0


class Line(Protocol):
    """The part of a Session a caller meets."""

    clock: Clock

    def hear(self, chunk: Chunk) -> None: ...

    def pull(self, n: int) -> Pcm16: ...

    def slot(self, late_s: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Played:
    """What came of it."""

    started_at: float  # the clip's first sample arrived; seconds on the session's clock
    reply: Pcm16  # everything pulled, 48 kHz mono, shape (n,)


class Loopback:
    """One clip, once, on a thread of its own.

    `tail_s` is how long to stay on the line after the clip; `hang_up` ends it earlier.
    """

    def __init__(
        self, session: Line, clip: Samples, tail_s: float = LONGEST_TAIL_S, floor_dbfs: float = FLOOR_DBFS
    ) -> None:
        self._session, self._clock = session, session.clock
        self._audio = np.concatenate((clip, noise(tail_s, floor_dbfs, seed=7)))
        self._clip_s = len(clip) / CAPTURE_RATE
        self._frames: list[Pcm16] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="turnaround-loopback", daemon=True)
        self._started_at = 0.0
        self._fed = 0  # index of the chunk fed last

    def start(self) -> Loopback:
        self._started_at = self._clock.now()
        self._thread.start()
        return self

    def hang_up(self) -> None:
        """Stop feeding and pulling."""
        self._stop.set()

    def interject(self, clip: Samples) -> float:
        """Say `clip` from the next chunk on, over whatever the session says. When its first sample arrives."""
        step = CAPTURE_RATE * CAPTURE_MS // 1000
        start = (self._fed + 2) * step  # the chunk after the one that is on its way
        end = min(start + len(clip), len(self._audio))
        self._audio[start:end] = clip[: end - start]
        return self._started_at + start / CAPTURE_RATE

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end, real seconds; False when it has not come."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def done(self) -> bool:
        return self._thread.ident is not None and not self._thread.is_alive()

    @property
    def started_at(self) -> float:
        return self._started_at

    @property
    def clip_over(self) -> bool:
        """Whether the whole clip has been fed."""
        return self._clock.now() - self._started_at >= self._clip_s

    def played(self) -> Played:
        """What was pulled until now."""
        frames = list(self._frames)
        return Played(self._started_at, np.concatenate(frames) if frames else np.zeros(0, np.int16))

    def _run(self) -> None:
        step = CAPTURE_RATE * CAPTURE_MS // 1000
        per_frame = FRAME_MS // CAPTURE_MS
        for index in range(len(self._audio) // step):
            due = self._started_at + (index + 1) * CAPTURE_MS / 1e3
            self._clock.sleep(due - self._clock.now())
            if self._stop.is_set():
                return
            self._fed = index
            samples = self._audio[index * step : (index + 1) * step]
            self._session.hear(Chunk(samples, self._clock.now()))
            if index % per_frame == 0:
                self._session.slot(self._clock.now() - due)
                self._frames.append(self._session.pull(PLAYOUT_RATE * FRAME_MS // 1000))
