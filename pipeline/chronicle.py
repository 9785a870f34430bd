"""What happened in a session, in order: bounded, counted, read from an index on."""

from __future__ import annotations

from collections import deque

from pipeline.clock import Clock
from pipeline.events import Event, Notice, NoticeCode

KEPT_EVENTS = 20_000
KEPT_NOTICES = 10


class Chronicle:
    """Not thread-safe: kept under its conversation's lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._notices: deque[Notice] = deque(maxlen=KEPT_NOTICES)
        self.count = 0  # events so far, kept or not

    def tell(self, event: Event) -> None:
        self._events.append(event)
        self.count += 1

    def notice(self, code: NoticeCode) -> None:
        notice = Notice(code, self._clock.now())
        self._notices.append(notice)
        self.tell(notice)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """The latest ones, the newest last."""
        return tuple(self._notices)

    def since(self, index: int) -> tuple[list[Event], int]:
        """The events from `index` on that are still kept, and the index to ask for next."""
        first = self.count - len(self._events)
        return list(self._events)[max(index - first, 0) :], self.count
