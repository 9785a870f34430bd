"""Which threads give way when the cores are short. Linux counts niceness by thread; elsewhere nothing is changed."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def made_by_a_nice_thread(make: Callable[[], T], nice: int) -> T:
    """`make()`, on a thread that steps back by `nice` (0 to 19), as do all threads that it starts.

    A runtime's own threads take the niceness of the one that made it, so this is how its computing yields to the media
    loop, to the VAD and to recognition. Raises what `make` raises.
    """
    made: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        step_back(nice)
        try:
            made.append(make())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="make")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def step_back(nice: int) -> None:
    """Make the calling thread nicer by `nice`. Where that cannot be done, it stays as it is."""
    if nice and sys.platform == "linux":
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness() + nice)
        except OSError:
            return


def niceness() -> int:
    """Of the calling thread."""
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) if sys.platform == "linux" else 0
