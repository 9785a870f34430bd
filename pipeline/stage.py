"""A stage: one thread, one loop, one bounded inbox. Its work is a generator: outputs as they come, and what it holds
is released in its `finally` when it is closed early.

A stage whose work hangs can be abandoned: `restart` leaves the stuck thread behind (its late outputs are refused) and
goes on with a fresh one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Generic, TypeVar

from pipeline.clock import Clock
from pipeline.priority import step_back

In = TypeVar("In")
Out = TypeVar("Out")


class WhenFull(Enum):
    """What a full inbox does with one item more."""

    DROP_OLDEST = auto()  # live audio: what is old is worth least
    LATEST = auto()  # capacity 1: only the newest request counts
    REFUSE = auto()  # the sender waits and tries again


class Inbox(Generic[In]):
    """A bounded queue with a stated policy."""

    def __init__(self, clock: Clock, capacity: int, when_full: WhenFull) -> None:
        self._clock = clock
        self._capacity = capacity
        self._when_full = when_full
        self._items: deque[tuple[In, float]] = deque()
        self._ready = threading.Condition()
        self._closed = False
        self.dropped = 0
        self.waited_s = 0.0  # of the item given out last

    def put(self, item: In) -> bool:
        """False when it was refused (full, or closed)."""
        with self._ready:
            if self._closed:
                return False
            if len(self._items) >= self._capacity:
                if self._when_full is WhenFull.REFUSE:
                    return False
                self._items.popleft()
                self.dropped += 1
            self._items.append((item, self._clock.now()))
            self._ready.notify()
            return True

    def get(self, timeout: float | None) -> In | None:
        """The next item; None when `timeout` seconds pass or the inbox is closed."""
        with self._ready:
            if not self._items and not self._closed:
                self._clock.wait(self._ready, timeout)
            if not self._items or self._closed:
                return None
            item, since = self._items.popleft()
            self.waited_s = self._clock.now() - since
            return item

    def close(self) -> None:
        with self._ready:
            self._closed = True
            self._items.clear()
            self._ready.notify_all()

    def wake(self) -> None:
        """Let whoever waits in `get` look again."""
        with self._ready:
            self._ready.notify_all()

    def __len__(self) -> int:
        return len(self._items)


class Stage(Generic[In, Out]):
    """Runs `work(item)` for each posted item and hands every output to `deliver`; False from it closes the work."""

    def __init__(
        self,
        name: str,
        work: Callable[[In], Iterator[Out]],
        deliver: Callable[[Out], bool],
        failed: Callable[[In, Exception], None],
        clock: Clock,
        capacity: int,
        when_full: WhenFull,
        taken: Callable[[In, float], None] | None = None,
        done: Callable[[In, float], None] | None = None,
        nice: int = 0,
    ) -> None:
        """`taken` is told how many seconds an item had waited, `done` how many were spent on it. `nice`: by how much
        its thread gives way to the others when cores are short.
        """
        self.name, self._nice = name, nice
        self._taken, self._done = taken, done
        self.inbox: Inbox[In] = Inbox(clock, capacity, when_full)
        self._work, self._deliver, self._failed = work, deliver, failed
        self._clock = clock
        self._generation = 0
        self._closed = False
        self._busy: tuple[In, float] | None = None  # the item in work, and its last sign of life
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(
            target=self._loop, args=(self._generation,), name=f"turnaround-{self.name}", daemon=True
        )
        self._thread.start()

    def post(self, item: In) -> bool:
        return self.inbox.put(item)

    def stalled(self, now: float) -> tuple[In, float] | None:
        """The item in work and the seconds since its last sign of life; None when idle."""
        busy = self._busy
        return None if busy is None else (busy[0], now - busy[1])

    def excuse(self) -> None:
        """Count from now: the whole process stood still, and nobody could give a sign of life."""
        busy = self._busy
        if busy is not None:
            self._busy = (busy[0], self._clock.now())

    def alive(self) -> None:
        """A sign of life from within the work (it waits for somebody else)."""
        if self._busy is not None and threading.current_thread() is self._thread:
            self._busy = (self._busy[0], self._clock.now())

    def restart(self) -> None:
        """Leave a stuck thread behind and go on with a new one."""
        self._generation += 1
        self._busy = None
        self.inbox.wake()
        if not self._closed:
            self.start()

    def close(self) -> None:
        self._closed = True
        self._generation += 1
        self.inbox.close()

    def join(self, timeout: float) -> bool:
        """Wait for the thread to end, real seconds; False when it did not."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    def _loop(self, generation: int) -> None:
        step_back(self._nice)
        while generation == self._generation:
            item = self.inbox.get(None)
            if item is None:
                continue
            if generation != self._generation:
                # Left behind while it waited: the item belongs to the new thread.
                self.inbox.put(item)
                return
            began = self._clock.now()
            self._busy = (item, began)
            if self._taken is not None:
                self._taken(item, self.inbox.waited_s)
            try:
                self._run(item, generation)
            except Exception as error:  # whatever an engine raises ends this item, not the stage
                if generation == self._generation:
                    self._failed(item, error)
            finally:
                if generation == self._generation:
                    if self._done is not None:
                        self._done(item, self._clock.now() - began)
                    self._busy = None

    def _run(self, item: In, generation: int) -> None:
        work = self._work(item)
        try:
            for output in work:
                if generation != self._generation or not self._deliver(output):
                    return
                self._busy = (item, self._clock.now())
        finally:
            close = getattr(work, "close", None)
            if close is not None:
                close()
