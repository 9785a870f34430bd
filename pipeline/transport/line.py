"""One visitor's line: the microphone into the session, the session's voice out, and the end of both."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pipeline.clock import Clock
from pipeline.ports import Chunk
from pipeline.transport.capture import Capture
from pipeline.transport.track import PacedTrack

log = logging.getLogger(__name__)


class Visit(Protocol):
    """What the line needs of a Session."""

    @property
    def clock(self) -> Clock: ...

    def hear(self, chunk: Chunk) -> None: ...

    def pull(self, n: int) -> npt.NDArray[np.int16]: ...

    def slot(self, late_s: float) -> None: ...

    def downlink(self, ms: float) -> None: ...


class Line:
    """Lives as long as the visitor's page; carries one connection at a time.

    `open` on the script's thread, `heard` and `closed` on the media loop.
    """

    def __init__(self, on_ended: Callable[[Any], None] | None = None) -> None:
        self.on_ended = on_ended
        self._lock = threading.Lock()
        self._visit: Visit | None = None
        self._track: PacedTrack | None = None
        self._capture: Capture | None = None

    @property
    def track(self) -> PacedTrack | None:
        """The outbound track of the connection, None when there is none."""
        return self._track

    @property
    def visit(self) -> Visit | None:
        return self._visit

    def open(self, visit_for: Callable[[], Visit], ptime_ms: int) -> PacedTrack:
        """The track to send, for `visit_for()`'s session; the same again while the connection lasts."""
        with self._lock:
            if self._track is None:
                visit = visit_for()
                self._visit = visit
                self._capture = Capture()
                self._track = PacedTrack(visit, visit.clock, ptime_ms)
            return self._track

    def heard(self, frame: Any) -> None:
        """One inbound frame. Only resamples and hands on: the loop must not wait here."""
        visit, capture = self._visit, self._capture
        if visit is None or capture is None:
            return  # a frame that was under way when the line closed
        chunk = capture.chunk(frame, visit.clock.now())
        if chunk is not None:
            visit.hear(chunk)

    def closed(self, which: PacedTrack | None = None) -> None:
        """The microphone ended: STOP, a closed tab or a lost connection. Any thread.

        Tells the owner once, on a thread of its own, because ending a session takes longer than the loop may wait.
        `which` is the track of the connection that ended: a late word about an earlier one changes nothing.
        """
        with self._lock:
            if which is not None and which is not self._track:
                return
            visit, track = self._visit, self._track
            self._visit = self._track = self._capture = None
        if track is not None:
            track.stop()  # else the relay reads it for ever
        if visit is not None and self.on_ended is not None:
            threading.Thread(target=self._tell, args=(self.on_ended, visit), name="hang-up", daemon=True).start()

    @staticmethod
    def _tell(on_ended: Callable[[Any], None], visit: Visit) -> None:
        try:
            on_ended(visit)
        except Exception:
            log.exception("the owner of an ended call failed to end it")
