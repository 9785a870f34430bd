"""What watches a session from beside it: the watchdog's pulse, and the meter of its load."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from pipeline.clock import Clock, cpu_seconds
from pipeline.events import Load

TICK_S = 0.1
LATE_SLOT_S = 0.008  # an outbound slot later than this may be heard
LOAD_WINDOW = 20  # ticks the CPU share is taken over


class Meter:
    """CPU, memory and outbound lateness. `tick` is called by the watchdog, `slot` by the transport."""

    def __init__(self, clock: Clock) -> None:
        import psutil

        self._process = psutil.Process()
        self._clock = clock
        self._cpu: deque[tuple[float, float]] = deque(maxlen=LOAD_WINDOW)
        self._rss_mb = 0.0
        self._late = self._slots = 0

    def slot(self, late: bool) -> None:
        self._slots += 1
        self._late += late

    def tick(self) -> None:
        self._cpu.append((self._clock.now(), cpu_seconds()))
        self._rss_mb = self._process.memory_info().rss / 1e6

    def load(self) -> Load:
        share = 0.0
        if len(self._cpu) > 1:
            (t0, c0), (t1, c1) = self._cpu[0], self._cpu[-1]
            share = (c1 - c0) / (t1 - t0) if t1 > t0 else 0.0
        return Load(round(share, 2), round(self._rss_mb, 1), self._late, self._slots)


class Watchdog:
    """Calls `look` ten times a second until closed."""

    def __init__(self, clock: Clock, look: Callable[[], None]) -> None:
        self._clock, self._look = clock, look
        self._stop = threading.Condition()
        self._closed = False

    def start(self) -> None:
        threading.Thread(target=self._loop, name="turnaround-watch", daemon=True).start()

    def close(self) -> None:
        with self._stop:
            self._closed = True
            self._stop.notify_all()

    def _loop(self) -> None:
        while not self._closed:
            self._look()
            with self._stop:
                if not self._closed:
                    self._clock.wait(self._stop, TICK_S)
