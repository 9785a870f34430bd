"""An event loop of its own for the media.

The libraries run on Streamlit's web server loop, where every rerun's messages are serialised; a late slot there makes
the browser's jitter buffer grow and it shrinks slowly.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

from aiortc.contrib.media import MediaRelay

from pipeline.transport.codecs import InlineOpusEncoder

REALTIME_PRIORITY = 1  # the lowest real-time one: ahead of every normal thread, behind the system's own
NICENESS = -10


class InlineLoop(asyncio.SelectorEventLoop):
    """A selector loop that runs our encoder in place instead of in an executor."""

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        if not isinstance(getattr(func, "__self__", None), InlineOpusEncoder):
            return super().run_in_executor(executor, func, *args)
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


class MediaLoop:
    """The loop, its thread (a daemon, for the life of the process) and the relay that belongs to it."""

    def __init__(self) -> None:
        self.loop = InlineLoop()
        self.relay = MediaRelay()
        self.priority = "normal"  # realtime | nice | normal: what the host allowed
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="media-loop", daemon=True)
        self._thread.start()
        started.wait()

    def _run(self, started: threading.Event) -> None:
        self.priority = raise_priority()
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(started.set)
        self.loop.run_forever()


def raise_priority() -> str:
    """Best effort, for the calling thread: real-time, else a lower niceness, else nothing. Needs root or CAP_SYS_NICE.

    SCHED_RESET_ON_FORK: threads started from the loop get the normal priority.
    """
    tid = threading.get_native_id()
    try:
        os.sched_setscheduler(tid, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(REALTIME_PRIORITY))
        return "realtime"
    except (AttributeError, OSError):
        pass  # not Linux, or not allowed
    try:
        os.setpriority(os.PRIO_PROCESS, tid, NICENESS)
        return "nice"
    except (AttributeError, OSError):
        return "normal"
