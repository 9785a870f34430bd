"""Reads a source that blocks (a model, a connection) in a thread of its own, so that whoever listens can stop waiting
at any moment: cancelled, closed, or out of patience.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from typing import TypeAlias, TypeVar

from pipeline.clock import Clock, SystemClock
from pipeline.errors import EngineError, TurnaroundError
from pipeline.ports import Cancel

T = TypeVar("T")
Pieces: TypeAlias = "queue.Queue[T | EngineError | None] | queue.SimpleQueue[T | EngineError | None]"
Put: TypeAlias = Callable[[T], bool]  # hands one item over; False once nobody wants more

POLL_S = 0.02  # how soon a cancellation is noticed


def taken(pieces: Pieces[T], cancel: Cancel, poll_s: float) -> Iterator[T]:
    """What another thread puts into `pieces`, until None, an EngineError (raised here), or cancel()."""
    while not cancel():
        try:
            piece = pieces.get(timeout=poll_s)
        except queue.Empty:
            continue
        if piece is None:
            return
        if isinstance(piece, EngineError):
            raise piece
        yield piece


def pumped(
    read: Callable[[Put[T]], None],
    stop: Callable[[], None],
    cancel: Cancel,
    patience_s: float,
    late: Callable[[], TurnaroundError],
    name: str,
    clock: Clock | None = None,
) -> Generator[T, None, None]:
    """What `read` puts, as it comes. `read` runs in a thread called `name` and may raise: so does this, then.

    When the listener goes away (cancel() is True, the iterator is closed, or nothing came for `patience_s` seconds,
    which raises `late()`), `stop` is called once: it must make `read` return soon. Nobody waits for that here.
    """
    time = clock or SystemClock()
    items: queue.SimpleQueue[tuple[T] | BaseException | None] = queue.SimpleQueue()
    gone = threading.Event()

    def put(item: T) -> bool:
        items.put((item,))
        return not gone.is_set()

    def work() -> None:
        try:
            read(put)
        except BaseException as error:
            items.put(error)
        else:
            items.put(None)

    over = False
    threading.Thread(target=work, name=name, daemon=True).start()
    try:
        deadline = time.now() + patience_s
        while not cancel():
            try:
                item = items.get(timeout=POLL_S)
            except queue.Empty:
                if time.now() < deadline:
                    continue
                raise late() from None
            if item is None or isinstance(item, BaseException):
                over = True
                if item is not None:
                    raise item
                return
            yield item[0]
            deadline = time.now() + patience_s
    finally:
        gone.set()
        if not over:
            stop()
