"""Callers through Chromium: their clips are its microphone, and what the page plays is listened to, on one clock.

One visitor asks everything, in one call, with a pause after each question long enough for the reply. Mouth to ear is
from the true end of speech, found again in what the page's microphone recorded, to the first sound out of the page's
audio element: it holds the uplink, the session and the downlink.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.audio import read_clip
from pipeline.bench.callers import Caller
from pipeline.bench.environment import ROOT
from pipeline.bench.report import TurnResult
from pipeline.bench.run import Cost, result
from pipeline.browser.driver import Browser, Capture, chromium
from pipeline.browser.mic import MicClip, MicWav, Spoken, find_spoken, make_mic_wav
from pipeline.browser.recording import first_sound
from pipeline.browser.server import Server
from pipeline.errors import Code, TurnaroundError
from pipeline.events import Snapshot, State, TurnView
from pipeline.settings import Settings
from pipeline.timeline import Mark, Timeline
from pipeline.ui.measured import COSTS, Order

GAP_S = 9.0  # from the end of a question to the next clip: a reply of two sentences and some
LEAD_S = 12.0  # before the first clip: the wav plays from the moment START is pressed, and connecting takes a while
BEFORE_S = 1.0  # a turn may begin that long before its clip's speech is thought to
LOADS_WITHIN_S = 300.0
TRUSTED = 0.3  # of the match of a clip in the recording; a busy browser drops blocks of it, and 0.4 is still the place


@dataclass(frozen=True, slots=True)
class Heard:
    """A call, over."""

    wav: MicWav
    capture: Capture
    turns: tuple[TurnView, ...]  # marks on the machine's monotonic clock
    underruns: tuple[int, ...]  # of the session, when each turn had ended
    cost: Cost  # of the server's process, not of the browser's


def ask_all(callers: Sequence[Caller], rounds: int, settings: Settings, serial: bool) -> tuple[list[TurnResult], Cost]:
    """The rows, and what the server spent. TurnaroundError when there is no browser, no page or no connection."""
    asked = [(caller, number) for number in range(1, rounds + 1) for caller in callers]
    heard = call([MicClip(read_clip(c.path), c.speech_end_s) for c, _ in asked], settings, serial)
    return list(rows(asked, heard)), heard.cost


def call(clips: Sequence[MicClip], settings: Settings, serial: bool, gap_s: float | Sequence[float] = GAP_S) -> Heard:
    """One call in Chromium in which these clips are said. TurnaroundError as in `ask_all`."""
    if chromium() is None:
        raise TurnaroundError(Code.PACKAGE_MISSING, "there is no Chromium", "apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        log, server_log = Path(folder) / "turns.jsonl", Path(folder) / "server.log"
        wav = make_mic_wav(clips, gap_s, Path(folder) / "callers.wav", LEAD_S)
        order = Order(str(log), settings.model_dump(), serial)
        collect = "true" if settings.transport == "stock" else "false"
        page = Server(
            ROOT / "app.py", server_log, ["--runner.postScriptGC", collect], order.environment(), "pipeline.ui.measured"
        )
        try:
            with page as server, Browser(wav.path) as browser:
                capture, cost = _visit(browser, server, wav.seconds)
        except ImportError as error:
            raise TurnaroundError(Code.PACKAGE_MISSING, str(error), "make setup-dev") from error
        except TurnaroundError:
            raise
        except Exception as error:  # Playwright's own, a page that does not come up, a call that does not connect
            raise TurnaroundError(Code.INTERNAL, f"{type(error).__name__}: {error}", _tail(server_log)) from error
        turns, underruns = read_turns(log.read_text("utf-8") if log.exists() else "")
    return Heard(wav, capture, turns, underruns, cost)


def _visit(browser: Browser, server: Server, seconds: float) -> tuple[Capture, Cost]:
    import psutil

    browser.open(server.url)
    browser.press_start(LOADS_WITHIN_S)
    browser.wait_connected()
    browser.start_capture()
    process = psutil.Process(server.pid)
    before = process.cpu_times()
    browser.wait(seconds)
    after = process.cpu_times()
    cost = Cost(process.memory_info().rss / 1e6, after.user + after.system - before.user - before.system)
    return browser.stop_capture(), cost


def _tail(log: Path) -> str:
    said = log.read_text(errors="replace").strip()[-600:] if log.exists() else ""
    return f"`python -m pipeline doctor` may know why; the page said: {said or 'nothing'}"


def read_turns(lines: str) -> tuple[tuple[TurnView, ...], tuple[int, ...]]:
    """The turns of a log written by pipeline.ui.measured, and the session's underruns after each."""
    found: list[dict[str, Any]] = [json.loads(line) for line in lines.splitlines()]
    return tuple(_view(turn) for turn in found), tuple(int(turn["underruns"]) for turn in found)


def _view(turn: dict[str, Any]) -> TurnView:
    timeline = Timeline()
    for name, at in turn["marks"].items():
        timeline = timeline.stamped(Mark(name), at)
    return TurnView(
        number=turn["number"],
        state=State(turn["state"]),
        heard=turn["heard"],
        final=True,
        reply=turn["reply"],
        spoken="",
        timeline=timeline,
        spans=timeline.spans(),
        drafted=turn["drafted"],
        cached=turn["cached"],
        p_finished=None,
        code=Code(turn["code"]) if turn["code"] else None,
        detail=turn["detail"],
        **{name: turn[name] for name in COSTS},
    )


def rows(asked: Sequence[tuple[Caller, int]], heard: Heard) -> Iterator[TurnResult]:
    """A row a clip: the turns begun between it and the next one, and the first sound after its true end."""
    spoken = find_spoken(heard.capture.mic, heard.wav)
    lasting = [end - start for start, end in zip(heard.wav.starts_s, heard.wav.ends_s, strict=True)]
    before = 0
    for index, (caller, number) in enumerate(asked):
        place = spoken[index]
        if place is None or place.score < TRUSTED:
            yield replace(_unheard(caller, number), detail="the clip was not found in what the microphone recorded")
            continue
        begun = place.ended_at - lasting[index] - BEFORE_S
        chosen = [i for i, t in enumerate(heard.turns) if begun <= _started(t) < place.ended_at + GAP_S - BEFORE_S]
        after = heard.underruns[chosen[-1]] if chosen else before
        seen = replace(_unheard_snapshot(), turns=tuple(heard.turns[i] for i in chosen), underruns=after - before)
        before = after
        row = result(caller, number, seen, place.ended_at)
        yield replace(row, mouth_to_ear_ms=_mouth_to_ear(row, heard.capture, place))


def _mouth_to_ear(row: TurnResult, capture: Capture, place: Spoken) -> float | None:
    """None when the reply did not wait for the end, or none was heard before the next clip."""
    if row.spans is None:
        return None
    at = first_sound(capture.ear, place.ended_at)
    return round((at - place.ended_at) * 1e3, 1) if at is not None and at < place.ended_at + GAP_S else None


def _started(turn: TurnView) -> float:
    marks = turn.timeline.marks
    return marks.get(Mark.SPEECH_START, min(marks.values(), default=float("-inf")))


def _unheard_snapshot() -> Snapshot:
    return Snapshot(version=0, at=0.0, level_dbfs=0.0, speaking=False, connected=True, turns=())


def _unheard(caller: Caller, number: int) -> TurnResult:
    return result(caller, number, _unheard_snapshot(), 0.0)
