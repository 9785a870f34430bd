"""What outlives a script run: the engines, shared by all; and one visitor's session, ended with the visit."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import streamlit as st

from pipeline import surroundings
from pipeline.clock import SystemClock
from pipeline.errors import Code, TurnaroundError
from pipeline.events import Snapshot, TurnView
from pipeline.settings import Settings, tunables
from pipeline.ui.switchboard import Microphone
from pipeline.ui.visitors import Seat, Visitors

if TYPE_CHECKING:
    from pipeline.ports import Engines
    from pipeline.session import Session
    from pipeline.stock import Shortage

GAP_S = 0.4
GAP_LOOK_S = 0.03
MAX_VISITORS = "TURNAROUND_MAX_VISITORS"
Choice: TypeAlias = tuple[tuple[str, Any], ...]  # what decides which engines are loaded


def choice(settings: Settings) -> Choice:
    decisive = [t.name for t in tunables() if t.group == "engines" and not t.live]
    return tuple((name, getattr(settings, name)) for name in decisive)


def secret(name: str) -> str:
    """A key or a path: out of the environment, else out of .streamlit/secrets.toml; "" where it is not set."""
    found = surroundings.secret(name)
    if not found and st.secrets.load_if_toml_exists() and name in st.secrets:
        found = str(st.secrets[name]).strip()
    return found


def shortages(settings: Settings) -> tuple[Shortage, ...]:
    """The engines of these settings that cannot start here, with what they lack."""
    from pipeline import stock

    return stock.shortages(settings, surroundings.engine_options(settings, secret_of=secret))


class Loading:
    """Engines being loaded by a thread, so that every waiting page can show the same progress."""

    def __init__(self, settings: Settings) -> None:
        self.shortages: tuple[Shortage, ...] = ()  # why it was not even tried
        self._clock = SystemClock()
        self._since = self._clock.now()
        self.what = ""
        self.share = 0.0
        self.engines: Engines | None = None
        self.error: TurnaroundError | None = None
        self._settings = settings
        self._thread = threading.Thread(target=self._load, name="load-engines", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        return self.engines is not None or self.error is not None

    def wait(self, seconds: float) -> None:
        """Return when it is done, or after `seconds`."""
        self._thread.join(seconds)

    @property
    def seconds(self) -> float:
        """For how long `what` has been going on: an import of twenty seconds moves no bar."""
        return self._clock.now() - self._since

    def _progress(self, what: str, share: float) -> None:
        if what != self.what:
            self._since = self._clock.now()
        self.what, self.share = what, min(max(share, 0.0), 1.0)

    def _load(self) -> None:
        try:
            from pipeline.build import load_engines

            self.shortages = shortages(self._settings)
            if self.shortages:
                lack = self.shortages[0].lacks[0]
                raise TurnaroundError(lack.code, lack.what, lack.how)
            self.engines = load_engines(self._settings, self._progress, secret)
        except TurnaroundError as error:
            self.error = error
        except Exception as error:
            # Whatever it is, a page that waits for ever would be worse.
            self.error = TurnaroundError(Code.INTERNAL, f"{type(error).__name__}: {error}")


# Two sets: a visitor trying another engine does not throw out what the others use.
@st.cache_resource(max_entries=2, show_spinner=False)
def _loading(_settings: Settings, key: Choice) -> Loading:
    del key
    return Loading(_settings)


def loading(settings: Settings) -> Loading:
    """The engines for these settings, loaded or on their way. Never blocks."""
    return _loading(settings, choice(settings))


def retry(settings: Settings) -> None:
    """Forget a failed load, so that the next run tries again."""
    _loading.clear(settings, choice(settings))


@st.cache_resource(show_spinner=False)
def visitors() -> Visitors:
    """The places of this host, swept while the process lives."""
    text = os.environ.get(MAX_VISITORS, "4")
    if not text.strip().isdigit() or int(text) < 1:
        raise TurnaroundError(Code.INTERNAL, f"{MAX_VISITORS}={text} is not a whole number above 0", "correct it")
    places = Visitors(int(text))
    places.watch()
    return places


@dataclass(slots=True, eq=False)
class Visit:
    """One visitor's session and place."""

    session: Session
    seat: Seat
    places: Visitors
    microphone: Microphone

    def poll(self, active: bool = False) -> Snapshot:
        """The session's snapshot; says at the same time that the page is alive."""
        snapshot = self.after_the_gap()
        self.places.seen(self.seat, active or snapshot.connected or snapshot.speaking)
        return snapshot

    def after_the_gap(self) -> Snapshot:
        """The session's snapshot, taken when no reply is awaited, or after GAP_S.

        Sending and drawing a page takes a core, and between the caller's last word and the reply's first there is none
        to spare. Blocks the script of this visitor's page, nobody else's.
        """
        clock = self.session.clock
        until = clock.now() + GAP_S
        while (snapshot := self.session.snapshot()).awaited and clock.now() < until:
            clock.sleep(GAP_LOOK_S)
        return snapshot

    def hung_up(self, ended: object) -> None:
        """The transport says that the call of `ended` is over."""
        if ended is self.microphone:
            self.session.hang_up()
            self.places.leave_unless_seen(self.seat)

    @property
    def closed(self) -> bool:
        """Whether the place was taken back while the page stood open."""
        return self.seat.lost


def _released(visit: Visit) -> None:
    """Streamlit lets go of the visit: the tab was closed, or its connection blinked and will be made again.

    So the place is given back only if no page polls soon; on a thread, as Streamlit waits for this.
    """
    threading.Thread(target=visit.places.leave_unless_seen, args=(visit.seat,), name="page-gone", daemon=True).start()


@st.cache_resource(scope="session", on_release=_released, show_spinner=False)
def _visit(_engines: Any, _settings: Settings) -> Visit:
    from pipeline.build import open_session

    before: Visit | None = st.session_state.get("visit")
    if before is not None and not before.closed:
        return before  # the connection blinked; the conversation goes on
    places = visitors()
    seat = places.admit()
    try:
        session = open_session(_engines, _settings)
    except BaseException:
        places.leave(seat)
        raise
    seat.close = session.close
    return Visit(session, seat, places, Microphone(session))


def visit(engines: Engines, settings: Settings) -> Visit:
    """This visitor's session, opened on first use. TurnaroundError when the host is full or the scenario is bad."""
    here = _visit(engines, settings)
    st.session_state["visit"] = here
    return here


def end_visit() -> None:
    """Close this visitor's session; its turns are kept for the Latency page, and the next run opens a new one."""
    here: Visit | None = st.session_state.pop("visit", None)
    if here is not None:
        st.session_state["earlier"] = all_turns(here.session.snapshot())
        here.places.leave(here.seat)
    _visit.clear()


def all_turns(snapshot: Snapshot) -> tuple[TurnView, ...]:
    """All turns of this visit, numbered through, also those from before a reconnection."""
    earlier: tuple[TurnView, ...] = st.session_state.get("earlier", ())
    if not earlier:
        return snapshot.turns
    before = earlier[-1].number
    return (*earlier, *(replace(t, number=before + t.number) for t in snapshot.turns))
