"""The pages as a visitor meets them, through AppTest: sessions are fakes and WebRTC is replaced."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
import streamlit as st
from streamlit.runtime.caching import cache_resource_api
from streamlit.runtime.pages_manager import PagesManager
from streamlit.testing.v1 import AppTest

from pipeline import build
from pipeline.clock import ManualClock, SystemClock
from pipeline.errors import Code, EngineError, TurnaroundError
from pipeline.events import State
from pipeline.settings import Settings, tunables
from pipeline.transport.install import Installed
from pipeline.ui import controls, frame, live, resources, trades, webrtc
from pipeline.ui.switchboard import Microphone, SampleCall, as_heard, as_wav
from pipeline.ui.visitors import GONE_S, IDLE_S, Visitors
from pipeline.ui.words import say
from tests.fakes import NASTY, FakeSession, demo_turns, turn

APP = str(Path(__file__).parent.parent / "app.py")
TIMEOUT = 20


class Stand:
    """What the page is given instead of engines, sessions and WebRTC; and what it did with them."""

    def __init__(self) -> None:
        self.sessions: list[FakeSession] = []
        self.turns: tuple[Any, ...] = ()
        self.phase, self.reason = webrtc.Phase.IDLE, None
        self.load_error: TurnaroundError | None = None
        self.loads = 0
        self.calls: list[dict[str, Any]] = []
        self.call_error: TurnaroundError | None = None

    def load(self, settings: Settings, progress: Any, _secret_of: Any) -> object:
        self.loads += 1
        progress("voice", 0.5)
        if self.load_error is not None:
            raise self.load_error
        return object()

    def open(self, engines: object, settings: Settings) -> FakeSession:
        session = FakeSession(self.turns, SystemClock())
        session.settings = settings
        self.sessions.append(session)
        return session

    def call(self, session_for: Any, settings: Settings, **rest: Any) -> webrtc.CallState:
        self.calls.append({"session": session_for(), "settings": settings, **rest})
        if self.call_error is not None:
            raise self.call_error
        return webrtc.CallState(self.phase, self.reason, None, Installed("tuned", "own", "nice", {}))


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    made = Stand()
    monkeypatch.setattr(build, "load_engines", made.load)
    monkeypatch.setattr(build, "open_session", made.open)
    monkeypatch.setattr(webrtc, "call", made.call)
    monkeypatch.setenv(resources.MAX_VISITORS, "2")
    # AppTest gives all of its visitors one session id; each needs its own for what is kept by session.
    monkeypatch.setattr(cache_resource_api, "get_session_id_or_throw", _session_id)
    # AppTest forgets before each run that st.navigation was called, and would run the page without its frame.
    monkeypatch.setattr(PagesManager, "__init__", _pages_manager)
    _clear()
    yield made
    _clear()


_PAGES_MANAGER = PagesManager.__init__


def _pages_manager(self: PagesManager, *args: Any, **options: Any) -> None:
    _PAGES_MANAGER(self, *args, **options)
    PagesManager.uses_pages_directory = False


def _session_id() -> str:
    made: str = st.session_state.setdefault("test.id", uuid.uuid4().hex)
    return made


def _clear() -> None:
    resources._loading.clear()
    resources.visitors.clear()


def visit(lang: str = "en") -> AppTest:
    at = AppTest.from_file(APP, default_timeout=TIMEOUT)
    at.session_state["lang"] = lang
    at.run()
    assert not at.exception, at.exception
    return at


def html(at: AppTest) -> str:
    return "\n".join(element.proto.body for element in at.get("html"))


# -- the conversation


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_an_empty_conversation_says_what_to_do(stand: Stand, lang: str) -> None:
    at = visit(lang)
    assert say("talk.empty", lang) in html(at)
    assert say("call.before-start", lang) in [c.value for c in at.caption]
    assert at.title[0].value == "Turnaround"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_turns_are_shown_and_what_was_said_stays_text(stand: Stand, lang: str) -> None:
    stand.turns = demo_turns()
    shown = html(visit(lang))
    assert "&lt;b&gt;x&lt;/b&gt; **y** $z$ :smile:" in shown
    assert NASTY not in shown
    assert "<s> get a message when it is on its way.</s>" in shown
    assert say("why.think-draft", lang) in shown


def test_the_figure_is_rebuilt_only_when_a_turn_has_ended(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr(live.charts, "waterfall", lambda turns, *a, **k: drawn.append(len(turns)) or go.Figure())
    stand.turns = (turn(1), turn(2, state=State.SPEAKING))
    at = visit()
    stand.sessions[0].turns = (turn(1), turn(2, state=State.SPEAKING, reply="More and more text."))
    at.run()
    assert drawn == [2]
    stand.sessions[0].turns = (turn(1), turn(2))
    at.run()
    at.run()
    assert drawn == [2, 2]


@pytest.mark.parametrize("reason", list(webrtc.Reason))
def test_a_call_that_cannot_be_says_why(stand: Stand, reason: webrtc.Reason) -> None:
    stand.phase, stand.reason = webrtc.Phase.FAILED, reason
    at = visit("zh")
    assert say(f"call.{reason}", "zh") in [w.value for w in at.warning]


def test_connecting_is_said(stand: Stand) -> None:
    stand.phase = webrtc.Phase.CONNECTING
    assert say("call.connecting", "en") in html(visit())


def test_a_transport_that_does_not_fit_leaves_the_sample_caller(stand: Stand) -> None:
    stand.call_error = TurnaroundError(Code.TRANSPORT_UNTESTED, "aiortc 9.9", "pip install aiortc==1.16.0")
    at = visit()
    assert "transport.untested-version" in html(at)
    assert not at.button(key="sample.play").disabled


# -- getting ready


def test_start_waits_for_the_engines_and_progress_is_shown(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def slow(settings: Settings, progress: Any, _secret_of: Any) -> object:
        progress("language model", 0.4)
        gate.wait(TIMEOUT)
        return object()

    monkeypatch.setattr(build, "load_engines", slow)
    at = visit()
    assert at.button(key="start.not-yet").disabled
    assert "language model" in [t.value for t in at.text]
    assert not stand.calls
    gate.set()
    at.run()
    assert stand.calls


def test_a_load_error_shows_code_words_remedy_and_can_be_retried(stand: Stand) -> None:
    stand.load_error = EngineError(Code.WEIGHTS_MISSING, "voice <b>.onnx", "pip install voice")
    at = visit("zh")
    shown = html(at)
    assert "weights.missing" in shown
    assert "pip install voice" in shown
    assert "voice &lt;b&gt;.onnx" in shown
    stand.load_error = None
    at.button(key="warm.retry").click().run()
    assert stand.loads == 2
    assert stand.calls


def test_an_engine_that_raises_anything_is_an_error_in_words(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(settings: Settings, progress: Any, _secret_of: Any) -> object:
        raise ZeroDivisionError("no")

    monkeypatch.setattr(build, "load_engines", broken)
    assert "session.internal" in html(visit())


def test_a_visitor_too_many_is_told_and_gets_the_place_that_becomes_free(stand: Stand) -> None:
    first, _second = visit(), visit()
    third = visit()
    assert "host.too-many-visitors" in html(third)
    seat = first.session_state["visit"].seat
    resources.visitors().leave(seat)
    assert stand.sessions[0].closed
    third.button(key="visit.retry").click().run()
    assert "host.too-many-visitors" not in html(third)


def test_a_visit_closed_for_idleness_can_be_begun_again_and_keeps_its_turns(stand: Stand) -> None:
    stand.turns = (turn(1),)
    at = visit()
    resources.visitors().leave(at.session_state["visit"].seat)
    at.run()
    assert say("visit.idle-closed", "en") in [i.value for i in at.info]
    at.button(key="visit.again").click().run()
    assert len(stand.sessions) == 2
    shown = html(at)
    assert "Turn 1<" in shown
    assert "Turn 2<" in shown


# -- settings


def test_every_setting_has_a_control(stand: Stand) -> None:
    at = visit()
    keys = {w.key for kind in (at.slider, at.toggle, at.selectbox, at.text_input) for w in kind}
    assert {controls.key_of(t.name) for t in tunables()} <= keys


def test_every_slider_can_show_its_default() -> None:
    assert [t.name for t in tunables() if not controls.fits(t)] == []


def test_a_slider_acts_on_the_live_session_and_reconnects_nothing(stand: Stand) -> None:
    at = visit()
    key = stand.calls[-1]["key"]
    at.slider(key="set.endpoint_floor_ms").set_value(300).run()
    assert [s.endpoint_floor_ms for s in stand.sessions[0].applied] == [300]
    assert len(stand.sessions) == 1
    assert not stand.sessions[0].closed
    at.run()
    assert stand.calls[-1]["key"] == key


def test_settings_that_do_not_fit_together_are_refused_in_words(stand: Stand) -> None:
    at = visit("zh")
    at.slider(key="set.endpoint_floor_ms").set_value(400).run()
    at.slider(key="set.endpoint_ceiling_ms").set_value(150).run()
    assert not at.exception
    assert say("set.floor-ceiling", "zh") in [t.value for t in at.text]
    assert 150 not in [s.endpoint_ceiling_ms for s in stand.sessions[0].applied]
    at.slider(key="set.endpoint_floor_ms").set_value(100).run()
    assert not at.error


def test_a_setting_the_session_refuses_is_said_in_words(stand: Stand) -> None:
    at = visit()
    stand.sessions[0].refuses = TurnaroundError(Code.BAD_SCENARIO, "shop-en.toml line 3")
    at.slider(key="set.speed").set_value(1.5).run()
    assert "shop-en.toml line 3" in [t.value for t in at.text]
    assert at.session_state["settings"].speed == 1.0


def test_reset_brings_the_defaults_back(stand: Stand) -> None:
    at = visit()
    at.slider(key="set.speed").set_value(1.5).run()
    at.button(key="set.reset").click().run()
    assert at.slider(key="set.speed").value == 1.0
    assert stand.sessions[0].applied[-1] == Settings()


def test_settings_that_need_a_reconnection_open_a_new_session(stand: Stand) -> None:
    stand.turns = (turn(1),)
    at = visit()
    key = stand.calls[-1]["key"]
    at.toggle(key="set.headphones").set_value(True)
    next(b for b in at.button if b.label == say("set.apply", "en")).click().run()
    at.run()
    assert stand.sessions[0].closed
    assert len(stand.sessions) == 2
    assert stand.sessions[1].settings.headphones
    assert stand.calls[-1]["key"] != key


# -- the Latency page


def latency(lang: str = "en") -> AppTest:
    at = visit(lang)
    at.switch_page("pages/latency.py").run()
    assert not at.exception, at.exception
    return at


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_latency_without_turns_says_what_to_do(stand: Stand, lang: str) -> None:
    assert say("lat.empty", lang) in [i.value for i in latency(lang).info]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_latency_shows_every_turn_of_the_visit(stand: Stand, lang: str) -> None:
    stand.turns = demo_turns()
    at = latency(lang)
    assert len(at.get("plotly_chart")) == 4
    assert at.dataframe[0].value[say("col.turn", lang)].tolist() == [7, 6, 5, 4, 3, 2, 1]
    assert len(at.get("download_button")) == 2


def test_moving_between_pages_keeps_session_and_call(stand: Stand) -> None:
    stand.turns = demo_turns()
    at = latency()
    at.switch_page("pages/conversation.py").run()
    assert len(stand.sessions) == 1
    assert not stand.sessions[0].closed
    assert len({c["key"] for c in stand.calls}) == 1
    assert all(c["session"] is stand.calls[0]["session"] for c in stand.calls)


# -- the trade


SWEEP = {
    "points": [
        {"name": name, "changes": changes, "serial": name == "serial", "default": name == "default",
         "summary": {"turns": 40, "total_ms": {"p50": p50, "p95": 2 * p50, "p99": 3 * p50}, "false_cut_in_rate": cut}}
        for name, changes, p50, cut in (
            ("default", {}, 210.0, 0.05), ("quick", {"endpoint_floor_ms": 80, "draft_after_ms": 40}, 160.0, 0.12),
            ("serial", {}, 900.0, 0.05), ("odd", {"endpoint_floor_ms": 990, "endpoint_ceiling_ms": 200}, 300.0, 0.2),
        )
    ]
}  # fmt: skip


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(trades, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(trades, "SHIPPED", tmp_path / "sweep.json")
    (tmp_path / "runs").mkdir()
    return tmp_path


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_without_a_sweep_the_page_says_how_to_get_one(stand: Stand, runs: Path, lang: str) -> None:
    assert say("trade.empty", lang) in [i.value for i in latency(lang).info]


def test_a_point_of_the_trade_is_applied_like_sliders(stand: Stand, runs: Path) -> None:
    (runs / "sweep.json").write_text(json.dumps(SWEEP))
    at = latency()
    assert len(at.get("plotly_chart")) == 1
    at.selectbox(key="trade.point").set_value("quick").run()
    at.button(key="trade.use").click().run()
    assert not at.exception
    assert [s.endpoint_floor_ms for s in stand.sessions[0].applied] == [80]
    assert at.slider(key="set.endpoint_floor_ms").value == 80
    assert say("trade.used", "en", name="quick") in [c.value for c in at.caption]
    assert len(stand.sessions) == 1


def test_a_point_that_does_not_fit_or_is_no_setting_changes_nothing(stand: Stand, runs: Path) -> None:
    (runs / "sweep.json").write_text(json.dumps(SWEEP))
    at = latency()
    at.selectbox(key="trade.point").set_value("serial").run()
    assert at.button(key="trade.use").disabled
    at.selectbox(key="trade.point").set_value("odd").run()
    at.button(key="trade.use").click().run()
    assert not at.exception
    assert stand.sessions[0].applied == []
    assert say("set.floor-ceiling", "en") in [t.value for t in at.text]


def test_another_file_can_be_chosen_and_a_bad_one_is_said_in_words(stand: Stand, runs: Path) -> None:
    (runs / "sweep.json").write_text(json.dumps(SWEEP))
    (runs / "runs" / "bench.json").write_text('{"turns": []}')
    (runs / "runs" / "broken.json").write_text('{"points": "none"}')
    at = latency()
    assert at.selectbox(key="trade.file").options == ["sweep.json", "broken.json"]  # a bench report is no sweep
    at.selectbox(key="trade.file").set_value(runs / "runs" / "broken.json").run()
    assert not at.exception
    assert say("trade.bad", "en") in [w.value for w in at.warning]


def test_a_server_whose_first_request_is_for_a_page_begins_with_the_entry_script(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PagesManager, "__init__", _PAGES_MANAGER)
    at = AppTest.from_file(APP, default_timeout=TIMEOUT)
    at.session_state["lang"] = "en"
    at.switch_page("pages/latency.py").run()
    assert not at.exception
    assert at.title[0].value == "Turnaround"
    assert say("lat.empty", "en") in [i.value for i in at.info]


# -- the sample caller


def test_a_clip_that_is_no_sound_is_refused_in_words(stand: Stand) -> None:
    at = visit("zh")
    at.file_uploader(key="sample.file").set_value(("notes.wav", b"not sound at all", "audio/wav")).run()
    at.button(key="sample.play-own").click().run()
    assert not at.exception
    assert "audio.unreadable-file" in html(at)


def test_a_caller_in_another_language_is_announced(stand: Stand) -> None:
    at = visit()
    box = at.selectbox(key="sample.which")
    box.select_index(len(box.options) - 1).run()
    assert any("Mandarin" in w.value for w in at.warning)


def test_a_sample_call_goes_through_the_session_and_is_heard_in_the_page(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.ui.switchboard.SETTLE_S", 0.2)
    at = visit()
    session = stand.sessions[0]
    session.voice = np.full(4800, 900, np.int16)
    at.selectbox(key="sample.which").select_index(11)  # "Yes."
    at.button(key="sample.play").click().run()
    call = at.session_state["sample.call"]
    assert say("sample.running", "en") in [i.value for i in at.info]
    session.turns = (turn(1),)
    clip_s = len(call._clip) / 16_000
    call._loopback.join(clip_s + 0.3)
    for _ in range(10):
        if "sample.call" not in at.session_state:
            break
        call._loopback.join(0.3)
        at.run()
    assert len(at.get("audio")) == 1
    assert sum(len(c.samples) for c in session.heard) >= len(call._clip)
    assert not at.session_state["visit"].microphone.suspended


# -- who is on the line (no page)


def test_the_microphone_is_not_heard_while_a_sample_caller_speaks() -> None:
    session = FakeSession(clock=SystemClock())
    microphone = Microphone(session)
    microphone.pull(480)
    call = SampleCall(microphone, np.zeros(1600, np.float32), 0)
    assert call.in_call
    assert microphone.suspended
    microphone.hear("from the microphone")  # type: ignore[arg-type]
    call.stop()
    assert "from the microphone" not in session.heard
    microphone.hear("again")  # type: ignore[arg-type]
    assert session.heard[-1] == "again"


def test_a_call_keeps_its_reply_while_a_sample_caller_speaks() -> None:
    from pipeline.ui.switchboard import _Caller

    session = FakeSession(clock=ManualClock())
    microphone = Microphone(session)
    session.voice = np.arange(1, 9, dtype=np.int16)
    microphone.pull(2)
    assert not _Caller(microphone).pull(4).any()
    session.clock.advance(1.0)  # type: ignore[attr-defined]
    assert _Caller(microphone).pull(4).tolist() == [3, 4, 5, 6]


def test_caller_and_reply_keep_their_distance() -> None:
    reply = np.zeros(48_000, np.int16)
    reply[24_000:24_010] = 1000
    both = as_heard(np.zeros(1600, np.float32), reply)
    assert np.flatnonzero(both).tolist() == list(range(24_000, 24_010))
    assert len(as_heard(np.ones(1600, np.float32), np.zeros(100, np.int16))) == 0
    assert as_wav(both)[:4] == b"RIFF"


# -- places (no page)


def test_a_place_whose_page_is_gone_is_given_back() -> None:
    clock, closed = ManualClock(), []
    places = Visitors(1, clock)
    seat = places.admit()
    seat.close = lambda: closed.append(1)
    with pytest.raises(TurnaroundError) as full:
        places.admit()
    assert full.value.code is Code.TOO_MANY_VISITORS
    clock.advance(GONE_S + 1)
    places.admit()
    assert seat.lost
    assert closed == [1]


def test_a_place_where_nothing_happens_is_given_back_though_its_page_is_open() -> None:
    clock = ManualClock()
    places = Visitors(1, clock)
    seat = places.admit()
    for _ in range(int(IDLE_S // 60)):
        clock.advance(60)
        places.seen(seat, active=False)
        places.sweep()
        assert not seat.lost
    clock.advance(61)
    places.seen(seat, active=False)
    places.sweep()
    assert seat.lost


def test_somebody_who_talks_keeps_the_place() -> None:
    clock = ManualClock()
    places = Visitors(1, clock)
    seat = places.admit()
    for _ in range(60):
        clock.advance(60)
        places.seen(seat, active=True)
        places.sweep()
    assert not seat.lost


class Napping(ManualClock):
    """A clock whose sleep passes time at once, doing something in between."""

    def __init__(self, meanwhile: Any) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        self._meanwhile()


def test_a_call_that_ends_with_its_page_frees_the_place_and_one_that_was_stopped_does_not() -> None:
    open_pages: list[Any] = []
    clock = Napping(lambda: [places.seen(s, active=False) for s in open_pages])
    places = Visitors(2, clock)
    closed_tab, stopped = places.admit(), places.admit()
    open_pages.append(stopped)
    places.leave_unless_seen(stopped)
    places.leave_unless_seen(closed_tab)
    assert closed_tab.lost
    assert not stopped.lost


def test_leaving_twice_closes_once() -> None:
    closed = []
    places = Visitors(1, ManualClock())
    seat = places.admit()
    seat.close = lambda: closed.append(1)
    places.leave(seat)
    places.leave(seat)
    assert closed == [1]
    assert len(places) == 0


@pytest.mark.parametrize("value", ["0", "many", "-1", ""])
def test_a_wrong_visitor_limit_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(resources.MAX_VISITORS, value)
    resources.visitors.clear()
    with pytest.raises(TurnaroundError, match=resources.MAX_VISITORS):
        resources.visitors()


def test_an_empty_conversation_in_a_call_invites_to_speak(stand: Stand) -> None:
    at = visit()
    stand.sessions[0].connected = True
    at.run()
    assert say("talk.go-ahead", "en") in html(at)


def test_the_style_sheet_is_there() -> None:
    assert frame.STYLE.is_file()
