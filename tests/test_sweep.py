"""The sweep: its grid, its Pareto front, what it writes, and the chart on the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import __main__ as entry
from pipeline.bench import sweep
from pipeline.errors import Code, EngineError
from pipeline.events import State, TurnView
from pipeline.settings import Settings
from pipeline.trade import BadTrade, Plan, Point, axes, beats, better_than_default, front, grid, read, settings_of
from pipeline.ui import tradeoff
from tests.test_bench import ScriptedVisit, _answered, _clip, _folder, _turn

FLOOR = Settings().endpoint_floor_ms

# -- the grid


def test_the_grid_is_the_product_with_the_default_in_it() -> None:
    over = axes(["endpoint_floor_ms=80,120", "draft=true,false"])
    plans = grid(over)
    assert [p.name for p in plans if not p.default] == [
        f"endpoint_floor_ms={f}, draft={d}" for f in (80, 120) for d in ("true", "false")
    ]
    assert [p.name for p in plans if p.default] == ["default"]
    assert plans[-1].changes == {"endpoint_floor_ms": 120, "draft": False}


def test_a_grid_that_holds_the_default_gets_no_second_one() -> None:
    plans = grid(axes([f"endpoint-floor-ms={FLOOR},333"]))
    assert [(p.name, p.default) for p in plans] == [
        (f"endpoint_floor_ms={FLOOR}", True),
        ("endpoint_floor_ms=333", False),
    ]


def test_compare_adds_the_serial_and_the_undrafted_order() -> None:
    plans = {p.name.partition(" ")[0]: p for p in grid({}, compare=True)}
    assert set(plans) == {"serial", "pipelined", "drafted"}
    assert plans["serial"].serial
    assert plans["pipelined"].changes == {"draft": False, "openers": False}
    assert plans["drafted"].default


def test_what_is_set_holds_for_every_point() -> None:
    plans = grid(axes(["endpoint_floor_ms=90,110"]), ["openers=false"], compare=True)
    assert not any(p.settings.openers for p in plans)


@given(st.lists(st.integers(0, 700), min_size=1, max_size=5, unique=True), st.booleans())
def test_every_combination_is_measured_once(floors: list[int], both: bool) -> None:
    over = [f"endpoint_floor_ms={','.join(map(str, floors))}", *(["draft=true,false"] if both else [])]
    plans = grid(axes(over))
    assert len({p.name for p in plans}) == len(plans)
    assert sum(p.default for p in plans) == 1
    asked = {(p.settings.endpoint_floor_ms, p.settings.draft) for p in plans}
    assert {(f, d) for f in floors for d in ((True, False) if both else (True,))} <= asked
    assert len(plans) - len(floors) * (1 + both) in (0, 1)


@pytest.mark.parametrize("wrong", ["draft", "=3", "draft=", "nothing_such=1", "asr=a,b", "threads=1,2"])
def test_an_axis_that_makes_no_sense_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        grid(axes([wrong]))


def test_a_combination_that_does_not_fit_together_is_refused_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="above endpoint_ceiling_ms"):
        grid(axes(["endpoint_floor_ms=80,900", "endpoint_ceiling_ms=500,1000"]))


# -- the front


def point(name: str, p50: float | None, cut_ins: float | None, **more: Any) -> Point:
    return Point(name, more.pop("changes", {}), p50, None if p50 is None else p50 * 2, cut_ins, 40, **more)


def test_the_front_holds_what_nothing_beats() -> None:
    points = [
        point("a", 100, 0.2),
        point("b", 200, 0.1),
        point("c", 210, 0.1),
        point("d", 150, 0.3),
        point("e", None, 1),
    ]
    assert [p.name for p in front(points)] == ["a", "b"]


def test_what_beats_the_default_is_named() -> None:
    default = point("default", 200, 0.1, default=True)
    assert better_than_default([default, point("fast", 100, 0.2)]) is None
    rival = point("rival", 150, 0.1)
    assert better_than_default([default, rival]) is rival
    assert "rival" in tradeoff.explain([default, rival], "en")
    assert "200 ms" in tradeoff.explain([default], "en")
    assert tradeoff.explain([rival], "en") == ""


measured = st.builds(
    lambda p50, cut: point(f"{p50} {cut}", p50, cut), st.integers(0, 20), st.sampled_from([0.0, 0.1, 0.2, 0.5])
)


@given(st.lists(measured, min_size=1, max_size=12))
def test_the_front_beats_all_others_and_not_itself(points: list[Point]) -> None:
    best = front(points)
    assert best
    assert not any(beats(a, b) for a in best for b in best)
    assert all(p in best or any(beats(b, p) for b in best) for p in points)
    assert [p.p50 for p in best] == sorted(p.p50 for p in best if p.p50 is not None)


# -- a point for the live session


def test_a_point_goes_back_to_defaults_where_it_says_nothing() -> None:
    now = Settings(draft=False, budget_think_ms=99, scenario="clinic-en", endpoint_floor_ms=333)
    wanted = settings_of(point("p", 1, 0, changes={"endpoint_floor_ms": 120}), now)
    after = now.changed(**wanted)
    assert (after.endpoint_floor_ms, after.draft) == (120, True)
    assert (after.budget_think_ms, after.scenario) == (99, "clinic-en")


@pytest.mark.parametrize("changes", [{"no_such": 1}, {"endpoint_floor_ms": "x"}, {"endpoint_floor_ms": 1000}])
def test_a_point_that_does_not_fit_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        settings_of(point("p", 1, 0, changes={"endpoint_ceiling_ms": 900, **changes}), Settings())


def test_the_serial_mode_cannot_be_applied() -> None:
    with pytest.raises(ValueError, match="serial"):
        settings_of(point("serial", 1, 0, serial=True), Settings())


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"points": [{}]}', '{"points": [{"name": 1, "summary": 2}]}', "\x00"]
)
def test_what_is_no_sweep_is_refused_in_words(text: str) -> None:
    with pytest.raises(BadTrade, match="not the JSON of a sweep"):
        read(text)


# -- the chart


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_chart_shows_every_point_the_front_and_the_default(lang: str) -> None:
    points = [point("a", 100, 0.2), point("b", 200, 0.1, default=True), point("serial", 900, 0.1, serial=True)]
    line, p95, p50, star = tradeoff.figure([*points, point("none", None, 1.0)], lang).data
    assert list(line.x) == [100, 200]
    assert len(p95.x) == 3
    assert (list(p50.x), list(star.x)) == ([100, 900], [200])
    assert list(star.y) == pytest.approx([10.0])


def test_a_chart_of_nothing_can_be_drawn() -> None:
    assert len(tradeoff.figure([point("none", None, 1.0)], "en").data) == 3


# -- the command


@pytest.fixture
def callers(tmp_path: Path) -> Path:
    return _folder(tmp_path, [_clip("a.wav"), _clip("b.wav")])


def scripted(
    monkeypatch: pytest.MonkeyPatch, ending: Callable[[float], TurnView | None]
) -> tuple[list[Plan], list[int]]:
    """Scripted visits instead of engines; the plans each visit was opened with, and how often engines were loaded."""
    opened: list[Plan] = []
    loads: list[int] = []

    def sessions(_settings: Settings) -> Callable[[Plan], ScriptedVisit]:
        loads.append(1)

        def open_one(plan: Plan) -> ScriptedVisit:
            opened.append(plan)
            return ScriptedVisit(ending)

        return open_one

    monkeypatch.setattr(sweep, "sessions", sessions)
    return opened, loads


def test_a_sweep_measures_every_point_and_writes_json_and_a_page(
    callers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened, loads = scripted(monkeypatch, _answered)
    out, html = tmp_path / "new" / "sweep.json", tmp_path / "sweep.html"
    args = ["sweep", "--over", f"endpoint_floor_ms={FLOOR},333", "--callers", str(callers), "--limit", "1"]
    assert entry.main([*args, "--compare", "--json", str(out), "--html", str(html)]) == 0
    assert len(loads) == 1
    assert [p.settings.endpoint_floor_ms for p in opened] == [FLOOR, 333, FLOOR, FLOOR]
    assert [p.serial for p in opened] == [False, False, True, False]
    report = json.loads(out.read_text())
    assert len(report["points"]) == 4
    assert any(p["front"] for p in report["points"])
    assert {"drafts_per_turn", "blame", "total_ms", "false_cut_in_rate"} <= report["points"][0]["summary"].keys()
    points = read(out.read_text())
    assert all(p.p50 > 0 for p in points)
    assert "endpoint_floor_ms=333" in html.read_text()
    said = capsys.readouterr()
    assert "point 4/4 pipelined" in said.err
    assert "Pareto" in said.out


def test_a_failed_turn_fails_the_sweep_and_is_still_written(
    callers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(monkeypatch, lambda _end: _turn(state=State.FAILED, code=Code.TTS_TIMEOUT))
    assert entry.main(["sweep", "--callers", str(callers), "--limit", "1", "--json", "-"]) == 1
    said = capsys.readouterr()
    assert "tts.timeout" in said.err
    assert "1 turns failed" in said.err
    assert read(said.out)[0].p50 is None


@pytest.mark.parametrize(
    "wrong", [["--over", "draft"], ["--over", "asr=x,y"], ["--lang", "yue"], ["--json", "/proc/nowhere/s.json"]]
)
def test_a_command_line_that_makes_no_sense_is_refused(
    callers: Path, wrong: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, loads = scripted(monkeypatch, _answered)
    assert entry.main(["sweep", "--callers", str(callers), *wrong]) == 2
    assert capsys.readouterr().err.strip()
    assert not loads


def test_engines_that_cannot_be_had_are_said_in_words(
    callers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(_settings: Settings) -> Callable[[Plan], ScriptedVisit]:
        raise EngineError(Code.WEIGHTS_MISSING, "tokenizer.bin is not there", "pip install it")

    monkeypatch.setattr(sweep, "sessions", absent)
    assert entry.main(["sweep", "--callers", str(callers)]) == 1
    assert "tokenizer.bin is not there\n  -> pip install it" in capsys.readouterr().err
