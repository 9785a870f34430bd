"""A session that answers each beep with a beep at once: what is left is the transport."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.browser.recording import Pcm
from pipeline.clock import Clock, SystemClock
from pipeline.ports import CAPTURE_RATE, PLAYOUT_RATE, Chunk

LOG_VARIABLE, SET_VARIABLE = "TURNAROUND_BEEP_LOG", "TURNAROUND_BEEP_SET"  # how beeps.py tells beep_app.py
LOUD = 0.05  # of full scale
QUIET_S = 0.3  # between two beeps
BEEP_HZ, BEEP_S, BEEP_LEVEL = 1500, 0.06, 0.6


def reply_beep() -> Pcm:
    """The answer: shape (n,), PLAYOUT_RATE."""
    t = np.arange(round(BEEP_S * PLAYOUT_RATE)) / PLAYOUT_RATE
    return (BEEP_LEVEL * 32767 * np.sin(2 * np.pi * BEEP_HZ * t)).astype(np.int16)


class BeepSession:
    """Hears on the media loop and answers from there; writes what happened when, a JSON line each, to `log`.

    `heard`: a beep's first loud sample arrived. `pulled`: the answer's first sample was taken. `slot`: a late slot.
    """

    def __init__(self, log: Path, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self._log = log.open("a", buffering=1)
        self._lock = threading.Lock()
        self._quiet = CAPTURE_RATE  # samples of silence so far: a beep may come first
        self._waiting = np.zeros(0, np.int16)
        self._fresh = False
        self._beep = reply_beep()

    def hear(self, chunk: Chunk) -> None:
        loud = np.flatnonzero(np.abs(chunk.samples) > LOUD)
        if loud.size == 0:
            self._quiet += chunk.samples.size
            return
        if self._quiet + int(loud[0]) > QUIET_S * CAPTURE_RATE:
            with self._lock:
                self._waiting, self._fresh = self._beep, True
            self._write("heard", chunk.at)
        self._quiet = chunk.samples.size - 1 - int(loud[-1])

    def pull(self, n: int) -> Pcm:
        with self._lock:
            taken, self._waiting = self._waiting[:n], self._waiting[n:]
            fresh, self._fresh = self._fresh, False
        if fresh:
            self._write("pulled", self.clock.now())
        return taken if taken.size == n else np.concatenate((taken, np.zeros(n - taken.size, np.int16)))

    def slot(self, late_s: float) -> None:
        if late_s > 0.005:
            self._write("slot", self.clock.now(), late_ms=round(late_s * 1e3, 2))

    def downlink(self, ms: float) -> None:
        self._write("downlink", self.clock.now(), ms=ms)

    def close(self) -> None:
        with self._lock:
            self._log.close()

    def _write(self, what: str, at: float, **more: Any) -> None:
        if not self._log.closed:
            self._log.write(json.dumps({"what": what, "at": at, **more}) + "\n")
