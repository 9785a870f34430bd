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

DEAD_AFTER_S = 5.0  # a browser sends silence too: no packet for so long is a lost connection or a killed browser


class Visit(Protocol):
    """What the line needs of a Session."""

    @property
    def clock(self) -> Clock: ...

    def hear(self, chunk: Chunk) -> None: ...

    def pull(self, n: int) -> npt.NDArray[np.int16]: ...

    def slot(self, late_s: float) -> None: ...

    def downlink(self, ms: float) -> None: ...


class Leg:
    """One connection of a line: its session, and the voice its outbound track plays.

    The outbound slots go on when the browser is gone, so they notice that the microphone does not. ICE (RFC 7675)
    takes 30 s for that.
    """

    def __init__(self, visit: Visit, ptime_ms: int, dead: Callable[[Leg], None]) -> None:
        self.visit = visit
        self.track = PacedTrack(self, visit.clock, ptime_ms)
        self._capture = Capture()
        self._dead = dead
        self._heard_at: float | None = None

    def heard(self, frame: Any) -> None:
        self._heard_at = self.visit.clock.now()
        chunk = self._capture.chunk(frame, self._heard_at)
        if chunk is not None:
            self.visit.hear(chunk)

    def pull(self, n: int) -> npt.NDArray[np.int16]:
        return self.visit.pull(n)

    def slot(self, late_s: float) -> None:
        self.visit.slot(late_s)
        if self._heard_at is not None and self.visit.clock.now() - self._heard_at > DEAD_AFTER_S + late_s:
            self._dead(self)


class Line:
    """Lives as long as the visitor's page; carries one connection at a time.

    `open` on the script's thread, `heard` on the media loop, `closed` on any.
    """

    def __init__(self, on_ended: Callable[[Any], None] | None = None) -> None:
        self.on_ended = on_ended
        self._lock = threading.Lock()
        self._leg: Leg | None = None

    @property
    def track(self) -> PacedTrack | None:
        """The outbound track of the connection, None when there is none."""
        leg = self._leg
        return leg.track if leg else None

    @property
    def visit(self) -> Visit | None:
        """The session of the connection, None when there is none."""
        leg = self._leg
        return leg.visit if leg else None

    def open(self, visit_for: Callable[[], Visit], ptime_ms: int) -> PacedTrack:
        """The track to send, for `visit_for()`'s session; the same again while the connection lasts."""
        with self._lock:
            if self._leg is None:
                self._leg = Leg(visit_for(), ptime_ms, lambda leg: self.closed(leg.track))
            return self._leg.track

    def heard(self, frame: Any) -> None:
        """One inbound frame. Only resamples and hands on: the loop must not wait here."""
        leg = self._leg
        if leg is not None:  # else a frame that was under way when the line closed
            leg.heard(frame)

    def closed(self, which: PacedTrack | None) -> None:
        """The connection with the track `which` ended: STOP, a closed tab, a lost connection. Any thread.

        Tells the owner once, on a thread of its own, because ending a session takes longer than the loop may wait.
        A late word about an earlier connection changes nothing.
        """
        with self._lock:
            leg = self._leg
            if leg is None or leg.track is not which:
                return
            self._leg = None
        leg.track.stop()  # else the relay reads it for ever
        if self.on_ended is not None:
            threading.Thread(target=self._tell, args=(self.on_ended, leg.visit), name="hang-up", daemon=True).start()

    @staticmethod
    def _tell(on_ended: Callable[[Any], None], visit: Visit) -> None:
        try:
            on_ended(visit)
        except Exception:
            log.exception("the owner of an ended call failed to end it")
