"""The memory of this process, so measured that two values can be compared."""

from __future__ import annotations

import ctypes
import gc
import logging
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise

import psutil

CALLS = 500
ROUNDS = 5
WARM_UP = 60  # calls after which caches and allocators are as large as they get


def resident() -> int:
    """Bytes in use."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what is free goes back, or it would hide a leak or look like one
    return int(psutil.Process().memory_info().rss)


@contextmanager
def _unlogged() -> Iterator[None]:
    """pytest keeps every line for its report: a few kilobytes a call where a server on loopback logs its visitors."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)


def growth(call: Callable[[], object], at_once: int = 1, calls: int = CALLS, warm_up: int = WARM_UP) -> float:
    """Bytes a call by which the process grows: the middle one of five rounds, so that no single jump counts."""
    with _unlogged(), ThreadPoolExecutor(at_once) as pool:

        def run(count: int) -> None:
            # Either way the thread is the same from round to round: a new one brings memory of its own.
            for done in [pool.submit(call) for _ in range(count)]:
                done.result()

        run(warm_up)
        gc.collect()
        gc.freeze()  # what was there before is not looked through again and again: a second each time beside torch
        try:
            sizes = [resident()]
            for _ in range(ROUNDS):
                run(calls // ROUNDS)
                sizes.append(resident())
        finally:
            gc.unfreeze()
    return statistics.median(after - before for before, after in pairwise(sizes)) / (calls / ROUNDS)
