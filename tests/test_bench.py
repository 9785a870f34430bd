"""The bench without models: what it counts, what it refuses, and what it writes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from pipeline import __main__ as entry
from pipeline.bench import cli
from pipeline.bench.callers import BadCallers, Caller, read_callers
from pipeline.bench.environment import ROOT
from pipeline.bench.report import summary, table
from pipeline.bench.run import answering, ask, result
from pipeline.bench.words import errors, number_words, pooled, tokens
from pipeline.blame import Rules
from pipeline.clock import SystemClock
from pipeline.errors import Code, EngineError
from pipeline.events import Outcome, Snapshot, State, TurnView
from pipeline.ports import Chunk
from pipeline.settings import tunables
from pipeline.timeline import Budget, Mark, Timeline

TRUE_END = 0.35  # seconds into the clips written here


# -- words


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("four five seven two one", "45721"),
        ("one hundred and twenty three dollars and forty cents", "$123.40"),
        ("Nine to six.", "9 to 6"),
        ("thirty days", "30 Days!"),
        ("one thousand two hundred", "1,200"),
        ("twenty-five per cent", "25 per cent"),
        ("two thousand and five", "2005"),
        ("don’t", "dont"),
    ],
)
def test_the_way_a_number_is_written_is_no_error(said: str, written: str) -> None:
    assert errors(said, written).edits == 0
    assert errors(written, said).edits == 0


@pytest.mark.parametrize(
    ("said", "written"), [("三十天", "30天"), ("两千零五", "2005"), ("四五七二一", "４５７２１。")]
)
def test_chinese_numerals_equal_digits(said: str, written: str) -> None:
    assert tokens(said, "zh") == tokens(written, "zh")


@given(st.integers(0, 999_999))
def test_every_number_read_out_is_read_back(n: int) -> None:
    assert number_words(_spoken(n)) == [str(n)]


def _spoken(n: int) -> str:
    ones = (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen"
    ).split()
    tens = "twenty thirty forty fifty sixty seventy eighty ninety".split()
    if n < 20:
        return ones[n]
    if n < 100:
        return tens[n // 10 - 2] + (f" {ones[n % 10]}" if n % 10 else "")
    size, name = (100, "hundred") if n < 1000 else (1000, "thousand")
    return f"{_spoken(n // size)} {name}" + (f" {_spoken(n % size)}" if n % size else "")


def test_errors_are_counted_in_words_or_characters() -> None:
    assert (errors("where is my order", "where my orders").edits, errors("a b c", "").length) == (2, 3)
    assert errors("我的订单", "我的单子", "zh").edits == 2
    assert errors("", "uh").rate == 1.0
    assert errors("", "").rate == 0.0


def test_a_pooled_rate_weighs_by_length() -> None:
    parts = [errors("yes", "no"), errors("one two three four five six seven eight nine", "1 2 3 4 5 6 7 8 9")]
    assert pooled(parts) == pytest.approx(0.1)
    assert pooled([]) is None


# -- callers


def _folder(tmp_path: Path, clips: list[dict[str, Any]]) -> Path:
    tone = (0.3 * np.sin(np.arange(8_000) / 5)).astype(np.float32)
    for clip in clips:
        if "file" in clip:
            soundfile.write(tmp_path / clip["file"], tone, 16_000)
    (tmp_path / "manifest.json").write_text(json.dumps({"clips": clips}), encoding="utf-8")
    return tmp_path


def _clip(name: str, **more: Any) -> dict[str, Any]:
    return {"file": name, "text": "Where is my order?", "speech_end_s": TRUE_END, "lang": "en", **more}


def test_callers_are_chosen_by_language_and_limit(tmp_path: Path) -> None:
    folder = _folder(
        tmp_path, [_clip("a.wav"), _clip("b.wav", lang="zh"), _clip("c.wav", fact="fifty"), _clip("d.wav")]
    )
    assert [c.file for c in read_callers(folder)] == ["a.wav", "b.wav", "c.wav", "d.wav"]
    assert [c.file for c in read_callers(folder, "en", 2)] == ["a.wav", "c.wav"]
    assert read_callers(folder, "en")[1].fact == "fifty"
    with pytest.raises(BadCallers, match="no clips"):
        read_callers(folder, "yue")


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        (None, "cannot be read"),
        ("{", "not JSON"),
        ("[]", "clips"),
        ('{"clips": []}', "no clips"),
        ('{"clips": [{"file": "x.wav"}]}', "broken"),
        ('{"clips": [7]}', "broken"),
        ('{"clips": [{"file": "x.wav", "text": "hi", "speech_end_s": 1}]}', "not in the folder"),
        ('{"clips": [{"file": "x.wav", "text": "hi", "speech_end_s": "late"}]}', "broken"),
    ],
)
def test_a_bad_manifest_is_named_and_exits_non_zero(
    tmp_path: Path, manifest: str | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    assert entry.main(["bench", "--callers", str(tmp_path)]) != 0
    assert says in capsys.readouterr().err


# -- one caller


def _turn(
    number: int = 1,
    state: State = State.ANSWERED,
    heard: str = "Where is my order?",
    code: Code | None = None,
    reply: str = "It is on its way.",
    drafted: bool = True,
    **marks: float,
) -> TurnView:
    timeline = Timeline()
    for name, at in marks.items():
        timeline = timeline.stamped(Mark(name), at)
    return TurnView(
        number=number,
        state=state,
        heard=heard,
        final=True,
        reply=reply,
        spoken="",
        timeline=timeline,
        spans=None,
        drafted=drafted,
        cached=False,
        p_finished=None,
        code=code,
        detail="",
    )


def _marks(end: float, endpoint: float, transcript: float, phrase: float, released: float) -> dict[str, float]:
    return {
        "speech_end": end,
        "endpoint": endpoint,
        "transcript": transcript,
        "first_phrase": phrase,
        "released": released,
    }


def _seen(*turns: TurnView, underruns: int = 0) -> Snapshot:
    return Snapshot(1, 0.0, -60.0, False, True, turns, underruns=underruns)


CALLER = Caller(Path("a.wav"), "Where is my order?", TRUE_END)


def test_latency_counts_from_the_manifests_end_not_from_the_systems() -> None:
    # The system believed that the speech ended 100 ms late: it gains nothing by that.
    row = result(CALLER, 1, _seen(_turn(**_marks(10.1, 10.3, 10.25, 10.35, 10.4))), true_end=10.0)
    assert row.spans is not None
    assert row.spans.as_dict() == pytest.approx({"listen": 300, "think": 50, "speak": 50, "total": 400})
    assert row.marks_ms["speech_end"] == pytest.approx(100)
    assert (row.false_cut_in, row.failed, row.errors.edits) == (False, False, 0)


def test_a_caller_cut_off_in_a_pause_is_measured_by_the_turn_that_heard_them_out() -> None:
    first = _turn(1, State.INTERRUPTED, "Where is", **_marks(8.9, 9.2, 9.1, 9.3, 9.4))
    second = _turn(2, State.ANSWERED, "my order?", **_marks(10.0, 10.3, 10.2, 10.3, 10.5))
    row = result(CALLER, 1, _seen(first, second), true_end=10.0)
    assert row.false_cut_in
    assert row.transcript == "Where is my order?"
    assert row.errors.edits == 0
    assert row.spans is not None
    assert row.spans.total == pytest.approx(500)


def test_a_reply_that_did_not_wait_has_no_latency_to_boast_of() -> None:
    row = result(CALLER, 1, _seen(_turn(**_marks(9.5, 9.7, 9.6, 9.8, 10.1))), true_end=10.0)
    assert row.false_cut_in
    assert row.spans is None
    assert row.outcome is Outcome.ANSWERED


def test_noise_taken_for_a_turn_does_not_hide_the_answer() -> None:
    answer = _turn(1, **_marks(10.0, 10.3, 10.2, 10.3, 10.5))
    noise = _turn(2, State.FAILED, "", Code.NOTHING_HEARD, "", speech_end=12.0, endpoint=12.3)
    assert answering((answer, noise)) is answer
    assert answering((noise,)) is noise
    assert answering(()) is None


def test_nobody_answering_is_a_failure() -> None:
    assert result(CALLER, 1, _seen(), 10.0).failed
    assert result(CALLER, 1, _seen(_turn(state=State.COMMITTED)), 10.0).failed
    failed = result(CALLER, 1, _seen(_turn(state=State.FAILED, code=Code.LLM_EMPTY)), 10.0)
    assert failed.failed
    assert failed.code == "llm.empty"
    assert not result(CALLER, 1, _seen(_turn(state=State.INTERRUPTED)), 10.0).failed


class ScriptedVisit:
    """Answers, or ends as told, once it has heard the caller's last sound."""

    def __init__(self, ending: Callable[[float], TurnView | None], underruns: int = 0) -> None:
        self.clock = SystemClock()
        self.ending, self.underruns = ending, underruns
        self.heard: list[Chunk] = []
        self.pulled = 0
        self.closed = False

    def hear(self, chunk: Chunk) -> None:
        self.heard.append(chunk)

    def pull(self, n: int) -> np.ndarray:
        self.pulled += n
        return np.zeros(n, np.int16)

    def slot(self, late_s: float) -> None:
        assert late_s > -1.0

    def snapshot(self) -> Snapshot:
        samples = sum(len(c.samples) for c in self.heard)
        if samples < (TRUE_END + 0.05) * 16_000:
            return _seen(_turn(state=State.HEARING))
        turn = self.ending(self.heard[0].at - 0.01 + TRUE_END)
        return _seen(*([turn] if turn else []), underruns=self.underruns)

    def close(self) -> None:
        self.closed = True


def _answered(true_end: float) -> TurnView:
    e = true_end
    return _turn(**_marks(e, e + 0.2, e + 0.1, e + 0.25, e + 0.3))


def test_a_visit_hears_the_clip_and_the_room_in_real_time_and_is_closed(tmp_path: Path) -> None:
    caller = read_callers(_folder(tmp_path, [_clip("a.wav", noise_dbfs=-40)]))[0]
    visit = ScriptedVisit(_answered)
    row = ask(lambda: visit, caller, 3)
    assert visit.closed
    assert (row.round, row.outcome) == (3, Outcome.ANSWERED)
    samples = np.concatenate([c.samples for c in visit.heard])
    lasted = visit.heard[-1].at - visit.heard[0].at
    assert lasted >= len(samples) / 16_000 - 0.1  # paced, not poured
    room = samples[8_000:]
    assert len(room) > 1_600
    assert 20 * np.log10(np.sqrt(np.mean(room**2))) == pytest.approx(-40, abs=1.5)
    assert visit.pulled == pytest.approx(len(samples) * 3, abs=960)


def test_a_visit_is_closed_when_the_clip_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bad.wav").write_bytes(b"no audio")
    with pytest.raises(EngineError) as caught:
        ask(lambda: ScriptedVisit(_answered), replace(CALLER, path=tmp_path / "bad.wav"), 1)
    assert caught.value.code is Code.UNREADABLE_FILE


# -- the report


def test_the_summary_pools_what_was_measured() -> None:
    good = result(CALLER, 1, _seen(_turn(**_marks(0, 0.1, 0.05, 0.11, 0.14)), underruns=2), 0.0)
    slow = result(CALLER, 1, _seen(_turn(**_marks(0, 0.3, 0.05, 0.4, 0.54))), 0.0)
    early = replace(good, spans=None, false_cut_in=True)
    found = summary([good, slow, early], Budget(), rss_mb=512.0, cpu_s=6.0)
    assert found["total_ms"]["p50"] == pytest.approx(340)
    assert (found["turns"], found["measured"], found["underruns"]) == (3, 2, 4)
    assert found["false_cut_in_rate"] == pytest.approx(1 / 3, abs=1e-4)
    assert found["within_budget"] == 0.5
    assert found["cpu_s_per_turn"] == 2.0
    assert found["fact_rate"] is None
    rates = summary([replace(good, fact_held=True), replace(good, fact_held=False), good], Budget(), 1.0, 1.0)
    assert rates["fact_rate"] == 0.5
    assert "340" in table([good, slow, early], found)


def test_the_summary_says_what_drafts_cost_and_why_turns_were_slow() -> None:
    slow = _turn(**_marks(0, 0.3, 0.05, 0.31, 0.34))
    cut = replace(_turn(1, State.INTERRUPTED, **_marks(-2, -1.8, -1.9, -1.8, -1.7)), drafts=1)
    slow = replace(slow, drafts=2, drafts_dropped=1, wasted_tokens=7, wasted_s=0.25)
    rows = [result(CALLER, 1, _seen(cut, slow), 0.0), result(CALLER, 1, _seen(_turn(drafted=False)), 0.0)]
    rules = Rules(floor_ms=200)
    found = summary(rows, Budget(), 1.0, 1.0, rules)
    assert (found["drafts_per_turn"], found["drafts_dropped"], found["wasted_tokens"]) == (1.5, 1, 7)
    assert found["draft_hit_rate"] == pytest.approx(2 / 3, abs=1e-3)
    assert found["wasted_cpu_s"] == 0.25
    assert found["blame"] == {"slow-endpoint": 1}
    assert rows[0].as_dict(Budget(), rules)["blame"] == {"stage": "listen", "reason": "slow-endpoint", "over_ms": 190.0}
    assert rows[1].as_dict(Budget(), rules)["blame"] is None
    said = table(rows, found, Budget(), rules)
    assert "slow-endpoint" in said
    assert "7 tokens" in said


def test_nothing_measured_is_none_and_not_zero() -> None:
    row = result(CALLER, 1, _seen(), 0.0)
    found = summary([row], Budget(), 1.0, 1.0)
    assert found["total_ms"] is None
    assert found["within_budget"] is None
    assert "nothing measured" in table([row], found)


# -- the command line


@pytest.fixture
def callers(tmp_path: Path) -> Path:
    return _folder(tmp_path, [_clip("a.wav"), _clip("b.wav"), _clip("c.wav", lang="zh", text="是")])


def _scripted(monkeypatch: pytest.MonkeyPatch, ending: Callable[[float], TurnView | None]) -> list[cli.Plan]:
    """Scripted visits instead of real engines; returns the plans the command line made."""
    plans: list[cli.Plan] = []

    def sessions(plan: cli.Plan) -> Callable[[], ScriptedVisit]:
        plans.append(plan)
        return lambda: ScriptedVisit(ending)

    monkeypatch.setattr(cli, "_sessions", sessions)
    return plans


def test_the_json_has_the_keys_of_the_contract(
    callers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = _scripted(monkeypatch, _answered)
    out = tmp_path / "new" / "report.json"
    args = ["bench", "--callers", str(callers), "--lang", "en", "--limit", "1", "--repeat", "2", "--json", str(out)]
    assert entry.main([*args, "--set", "draft=false", "speed=1.2", "--mode", "serial"]) == 0
    assert plans[0].serial
    assert (plans[0].settings.draft, plans[0].settings.speed) == (False, 1.2)
    report = json.loads(out.read_text())
    assert [t["file"] for t in report["turns"]] == ["a.wav", "a.wav"]
    turn_keys = "file marks_ms spans_ms transcript reply outcome false_cut_in cached drafted"
    assert set(turn_keys.split()) <= report["turns"][0].keys()
    assert report["turns"][0]["spans_ms"].keys() == {"listen", "think", "speak", "total"}
    assert report["turns"][0]["spans_ms"]["total"] >= 250
    keys = "total_ms listen_ms think_ms speak_ms false_cut_in_rate wer fact_rate underruns rss_mb cpu_s_per_turn"
    assert set(keys.split()) <= report["summary"].keys()
    assert {"p50", "p95", "p99"} <= report["summary"]["total_ms"].keys()
    assert {"python", "platform", "cores", "packages", "commit", "load_1m"} <= report["environment"].keys()
    assert report["mode"] == "serial"
    assert report["settings"]["draft"] is False
    assert "a.wav" in capsys.readouterr().out


def test_json_on_stdout_is_only_json(
    callers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _scripted(monkeypatch, _answered)
    assert entry.main(["bench", "--callers", str(callers), "--limit", "1", "--json", "-"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["summary"]["turns"] == 1
    assert "false cut-ins" in said.err


def test_a_failed_turn_fails_the_run(
    callers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _scripted(monkeypatch, lambda _end: _turn(state=State.FAILED, code=Code.TTS_TIMEOUT))
    assert entry.main(["bench", "--callers", str(callers), "--limit", "1"]) == 1
    assert "tts.timeout" in capsys.readouterr().err


def test_an_engine_that_cannot_be_had_is_said_in_words(
    callers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(_plan: cli.Plan) -> Callable[[], ScriptedVisit]:
        raise EngineError(Code.WEIGHTS_MISSING, "tokenizer.bin is not there", "pip install it")

    monkeypatch.setattr(cli, "_sessions", absent)
    assert entry.main(["bench", "--callers", str(callers)]) == 1
    assert "tokenizer.bin is not there\n  -> pip install it" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        ["--set", "speed=fast"],
        ["--set", "no_such_setting=1"],
        ["--set", "draft"],
        ["--lang", "yue"],
        ["--callers", "nowhere"],
        ["--json", "/proc/nowhere/report.json"],
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused_in_words(
    callers: Path, wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(["bench", "--callers", str(callers), *wrong]) == 2
    assert capsys.readouterr().err.strip()


@pytest.mark.parametrize("command", entry.COMMANDS)
def test_every_command_lists_the_settings_in_its_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        entry.main([command, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert not [t.name for t in tunables() if t.name not in said]


def test_the_table_of_settings_comes_in_both_languages(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["settings"]) == 0
    english = capsys.readouterr().out
    assert entry.main(["settings", "--lang", "zh"]) == 0
    chinese = capsys.readouterr().out
    assert english.count("\n") == chinese.count("\n") == len(tunables()) + 2
    assert "设置" in chinese


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        entry.main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert not [name for name in entry.COMMANDS if name not in said]
    with pytest.raises(SystemExit) as refused:
        entry.main(["nonsense"])
    assert refused.value.code == 2


@pytest.mark.engines
def test_two_real_questions_through_the_real_engines(tmp_path: Path) -> None:
    """The command a user types, in a process of its own, whose memory is then the embedded path's alone."""
    out = tmp_path / "report.json"
    command = [sys.executable, "-m", "pipeline", "bench", "--limit", "2", "--json", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    assert [t["outcome"] for t in report["turns"]] == ["answered", "answered"]
    assert all(t["spans_ms"]["total"] > 0 for t in report["turns"])
    assert report["summary"]["wer"] < 0.2
    assert 0 < report["summary"]["rss_mb"] < 1000
    assert report["environment"]["imported"] == []
