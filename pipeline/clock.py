"""The only source of time. Everything else is handed a Clock, so tests need no sleep."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic seconds; the origin is arbitrary, differences are meaningful."""

    def now(self) -> float:
        """Seconds since an arbitrary origin; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass; returns at once when it is not positive."""
        ...

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:
        """Wait on `condition` (held by the caller) until notified or `timeout` seconds pass; False on timeout."""
        ...


class SystemClock:
    """CLOCK_MONOTONIC: the same clock Chromium stamps its media with on Linux."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:
        return condition.wait(timeout)


class ManualClock:
    """Time that moves only when a test moves it; waiters with a timeout wake when it has passed."""

    def __init__(self, start: float = 100.0) -> None:
        self._now = start
        self._lock = threading.Lock()
        self._waiters: list[threading.Condition] = []

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        deadline = self._now + seconds
        condition = threading.Condition()
        with condition:
            while self._now < deadline:
                self.wait(condition, deadline - self._now)

    def wait(self, condition: threading.Condition, timeout: float | None) -> bool:
        if timeout is None:
            return condition.wait()
        deadline = self._now + timeout
        if timeout <= 0:
            return False
        with self._lock:
            self._waiters.append(condition)
        try:
            # The real timeout only bounds a lost wake-up between the check and the wait.
            notified = condition.wait(0.01)
            return notified and self._now < deadline
        finally:
            with self._lock:
                self._waiters.remove(condition)

    def advance(self, seconds: float) -> None:
        """Move time forward and wake whoever waits with a timeout."""
        if seconds < 0:
            raise ValueError("time does not go back")
        self._now += seconds
        with self._lock:
            waiters = list(self._waiters)
        for condition in waiters:
            with condition:
                condition.notify_all()


def cpu_seconds() -> float:
    """CPU seconds (user and system) this process has used so far."""
    return time.process_time()


def wall_iso() -> str:
    """The wall clock, for labelling a report only; never for a latency."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
