"""How many visitors there may be at once, and when a place is given back. No Streamlit here: tests need none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from pipeline.clock import Clock, SystemClock
from pipeline.errors import Code, TurnaroundError

GONE_S = 120.0  # a page that has not polled for so long is closed, or asleep beyond use; hidden tabs poll once a minute
IDLE_S = 900.0  # nobody has spoken or pressed anything for so long
SWEEP_S = 10.0
GRACE_S = 6.0  # for a page to show that it is still there: a connection that blinked is back by then


@dataclass(slots=True, eq=False)
class Seat:
    """One visitor's place. `lost` says that it was given back while the page may still be open."""

    close: Callable[[], None] = field(default=lambda: None)
    seen: float = 0.0  # when its page last polled
    active: float = 0.0  # when something last happened in it
    lost: bool = False


class Visitors:
    """The places of this host. Thread-safe; `sweep` is run by a thread of its own once `watch` was called."""

    def __init__(self, limit: int, clock: Clock | None = None) -> None:
        self.limit = limit
        self._clock: Clock = clock or SystemClock()
        self._seats: list[Seat] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._seats)

    def admit(self) -> Seat:
        """A place. TurnaroundError TOO_MANY_VISITORS when there is none, also after clearing those left behind."""
        self.sweep()
        now = self._clock.now()
        with self._lock:
            if len(self._seats) >= self.limit:
                raise TurnaroundError(
                    Code.TOO_MANY_VISITORS,
                    f"{len(self._seats)} of {self.limit} places are taken",
                    "wait, or raise TURNAROUND_MAX_VISITORS",
                )
            seat = Seat(seen=now, active=now)
            self._seats.append(seat)
            return seat

    def seen(self, seat: Seat, active: bool) -> None:
        """The page of this seat polled; `active` when somebody speaks, is spoken to or is connected."""
        now = self._clock.now()
        seat.seen = now
        if active:
            seat.active = now

    def leave(self, seat: Seat) -> None:
        """Give the place back and close what it held. Idempotent."""
        with self._lock:
            if seat not in self._seats:
                return
            self._seats.remove(seat)
            seat.lost = True
        seat.close()

    def leave_unless_seen(self, seat: Seat) -> None:
        """Something says that this seat's page may be gone: give the place back unless the page polls soon.

        Blocks for GRACE_S.
        """
        at = self._clock.now()
        self._clock.sleep(GRACE_S)
        if seat.seen <= at + GRACE_S / 4:
            self.leave(seat)

    def sweep(self) -> None:
        """Close the places whose page is gone or where nothing has happened for long."""
        now = self._clock.now()
        with self._lock:
            left = [s for s in self._seats if now - max(s.seen, s.active) > GONE_S or now - s.active > IDLE_S]
        for seat in left:
            self.leave(seat)

    def watch(self) -> None:
        """Sweep every few seconds in a daemon thread, for as long as the process lives or until `stop`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="visitors", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _watch(self) -> None:
        while not self._stop.wait(SWEEP_S):
            self.sweep()
