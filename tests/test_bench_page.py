"""The bench through the browser, without one: whose turn is whose, and from where to where mouth to ear is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.bench import cli, page
from pipeline.bench.callers import DEFAULT_FOLDER, read_callers
from pipeline.bench.run import Cost
from pipeline.browser import beeps
from pipeline.browser.driver import Capture
from pipeline.browser.mic import MIC_RATE, MicClip, make_mic_wav
from pipeline.browser.recording import Pcm, Recording
from pipeline.errors import Code, TurnaroundError
from pipeline.events import Outcome, State, TurnView
from pipeline.settings import Settings
from pipeline.timeline import Mark, Timeline
from pipeline.ui.measured import Order, as_line

T0 = 500.0  # the recording's first sample on the monotonic clock
LATE_S = 0.32  # of the reply's first sound after the true end


def _recording(pcm: Pcm) -> Recording:
    lengths = [480] * (pcm.size // 480)
    return Recording.of(pcm, MIC_RATE, lengths, T0 + np.arange(len(lengths)) * 480 / MIC_RATE)


def _turn(number: int, end: float, state: State = State.ANSWERED, heard: str = "Where is my order?") -> TurnView:
    marks = {Mark.SPEECH_START: end - 0.9, Mark.SPEECH_END: end, Mark.TRANSCRIPT: end + 0.1}
    if state is State.ANSWERED:
        marks |= {Mark.ENDPOINT: end + 0.2, Mark.FIRST_PHRASE: end + 0.22, Mark.RELEASED: end + 0.25}
    timeline = Timeline(marks)
    code = Code.LLM_EMPTY if state is State.FAILED else None
    return TurnView(number, state, heard, True, "It is here.", "", timeline, None, True, False, None, code, "")


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> page.Heard:
    """Two clips in the microphone; the first is answered after LATE_S, the second fails."""
    clips = [page.read_clip(DEFAULT_FOLDER / name) for name in ("en_02_plain.flac", "en_11_plain.flac")]
    wav = make_mic_wav(
        [MicClip(clips[0], 1.45), MicClip(clips[1], 0.82)], page.GAP_S, tmp_path_factory.mktemp("mic") / "mic.wav"
    )
    ear = np.zeros(wav.pcm.size, np.int16)
    first = round((wav.ends_s[0] + LATE_S) * MIC_RATE)
    ear[first : first + MIC_RATE] = 9_000
    ends = [T0 + end for end in wav.ends_s]
    turns = (_turn(1, ends[0]), _turn(2, ends[1], State.FAILED, "Yes."))
    capture = Capture(_recording(wav.pcm), _recording(ear), 0.1, {})
    return page.Heard(wav, capture, turns, (2, 5), Cost(500.0, 3.0))


def _asked() -> list[tuple[page.Caller, int]]:
    known = {c.file: c for c in read_callers(DEFAULT_FOLDER)}
    return [(known[name], 1) for name in ("en_02_plain.flac", "en_11_plain.flac")]


def test_each_clip_gets_its_own_turns_and_the_first_sound_after_its_end(call: page.Heard) -> None:
    first, second = page.rows(_asked(), call)
    assert (first.outcome, first.underruns, first.errors.edits) == (Outcome.ANSWERED, 2, 0)
    assert first.mouth_to_ear_ms == pytest.approx(LATE_S * 1e3, abs=5)
    assert first.spans is not None
    assert first.spans.total == pytest.approx(250, abs=5)
    assert (second.outcome, second.code, second.underruns) == (Outcome.FAILED, "llm.empty", 3)
    assert second.mouth_to_ear_ms is None


def test_a_clip_the_microphone_never_gave_is_a_failure_and_not_a_latency(call: page.Heard) -> None:
    silent = replace(call.capture, mic=_recording(np.zeros(call.wav.pcm.size, np.int16)))
    for row in page.rows(_asked(), replace(call, capture=silent)):
        assert row.failed
        assert row.mouth_to_ear_ms is None
        assert "not found" in row.detail


def test_a_reply_nobody_heard_has_no_latency(call: page.Heard) -> None:
    deaf = replace(call.capture, ear=_recording(np.zeros(call.wav.pcm.size, np.int16)))
    assert [row.mouth_to_ear_ms for row in page.rows(_asked(), replace(call, capture=deaf))] == [None, None]


def test_the_turn_log_survives_the_way_to_the_bench() -> None:
    turns = (
        replace(_turn(1, T0, heard="你好"), cold=True, drafts=2, wasted_s=0.5, late_slots=3),
        _turn(2, T0 + 5, State.FAILED),
    )
    read, underruns = page.read_turns("\n".join(as_line(t, n) for n, t in enumerate(turns)) + "\n")
    assert underruns == (0, 1)
    assert [replace(t, spans=None) for t in read] == list(turns)
    assert page.read_turns("") == ((), ())


def test_the_order_reaches_the_page_through_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    order = Order("/tmp/log", Settings(draft=False).model_dump(), serial=True)
    for name, value in order.environment().items():
        monkeypatch.setenv(name, value)
    assert Order.given() == order
    assert Settings.model_validate(Order.given().settings) == Settings(draft=False)


def test_without_a_browser_the_bench_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(page, "chromium", lambda: None)
    assert cli.main(["--through", "browser", "--limit", "1"]) == 1
    assert "there is no Chromium\n  -> " in capsys.readouterr().err


def test_a_page_that_does_not_come_up_is_told_with_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoServer:
        def __init__(self, _script: Path, log: Path, *_more: object) -> None:
            log.write_text("Port 1 is already in use")

        def __enter__(self) -> None:
            raise RuntimeError("the app did not come up")

        def __exit__(self, *_error: object) -> None:
            """Nothing was begun."""

    monkeypatch.setattr(page, "Server", NoServer)
    monkeypatch.setattr(page, "chromium", lambda: "chromium")
    with pytest.raises(TurnaroundError, match="did not come up") as caught:
        page.ask_all(read_callers(DEFAULT_FOLDER, "en", 1), 1, Settings(), serial=False)
    assert "Port 1 is already in use" in caught.value.remedy


def test_beeps_are_reported_with_the_settings_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[int, str, list[str]]] = []

    def measured(n: int, transport: str, *, sets: list[str]) -> beeps.BeepResult:
        asked.append((n, transport, sets))
        one = beeps.Beep(total=60.0, uplink=9.0, server=1.0, downlink=50.0)
        return beeps.BeepResult(transport, 10, n, (one,) * (n - 1), 0, 1.0, None, 0.1, 0.5, {})

    monkeypatch.setattr(beeps, "beeps", measured)
    out = tmp_path / "beeps.json"
    args = ["--beeps", "3", "--set", "transport=stock", "out_ptime_ms=10", "--json", str(out)]
    assert cli.main(args) == 1, "one beep of three was not answered"
    assert asked == [(3, "stock", ["out_ptime_ms=10"])]
    assert json.loads(out.read_text())["beeps"]["summary"]["total_ms"]["p50"] == 60.0
    assert "2 of 3 beeps" in capsys.readouterr().out
