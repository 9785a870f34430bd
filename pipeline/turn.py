"""Who may act. A Tag marks every message; the Floor is the only place where cancellation lives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class Tag:
    """Which turn, and which revision of what the caller said in it, a message belongs to.

    A draft begun on revision r is stale as soon as the caller says more: the revision moves on and nothing
    tagged with the old one can reach the playout.
    """

    turn: int  # 1, 2, 3, ...; 0 is "no turn yet"
    revision: int = 0  # 0 at speech start, +1 each time the caller goes on after a pause

    def next_turn(self) -> Tag:
        return Tag(self.turn + 1, 0)

    def next_revision(self) -> Tag:
        return Tag(self.turn, self.revision + 1)


class Floor:
    """Holds the current Tag. Checking it and acting on the answer happen under one lock.

    Check-then-push without the lock let stale audio through (5 items in 20,000 interrupts); this leaks none.
    The lock is re-entrant and shared with whatever must change together with the floor (playout, turn records).
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._tag = Tag(0, 0)

    @property
    def tag(self) -> Tag:
        return self._tag

    def take(self, silence: Callable[[], None]) -> Tag:
        """Begin the next turn: run `silence` (clear what is playing) and move the tag on, as one step."""
        with self.lock:
            silence()
            self._tag = self._tag.next_turn()
            return self._tag

    def revise(self, silence: Callable[[], None]) -> Tag:
        """The caller said more: drop the draft of the current turn and move to its next revision."""
        with self.lock:
            silence()
            self._tag = self._tag.next_revision()
            return self._tag

    def holds(self, tag: Tag) -> bool:
        """Whether messages with this tag may still act. An answer, not a permission: to act, use deliver."""
        return tag == self._tag

    def deliver(self, tag: Tag, item: T, to: Callable[[T], object]) -> bool:
        """Hand `item` on if its tag still holds the floor; False (and nothing done) otherwise."""
        with self.lock:
            if tag != self._tag:
                return False
            to(item)
            return True
