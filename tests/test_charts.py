"""The figures, the bubbles and the files hold what the turns hold, and never markup a caller spoke."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.blame import Reason, Rules
from pipeline.errors import Code
from pipeline.events import NoticeCode, State, TurnView
from pipeline.timeline import Budget, Mark
from pipeline.ui import bubbles, charts, export, reasons
from pipeline.ui.remedies import of_reason
from pipeline.ui.words import say
from tests.fakes import NASTY, FakeSession, demo_turns, notice, turn

BUDGET = Budget()
LANGS = ("en", "zh")


class Shown(HTMLParser):
    """What a browser would show: the text, and the tags it was put in."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.tags = "", set[str]()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, text: str) -> None:
        self.text += text


# -- figures


def test_a_waterfall_lays_the_spans_end_to_end_beside_the_budget() -> None:
    figure = charts.waterfall((turn(1, (70.0, 30.0, 20.0)), turn(2, (300.0, 0.0, 90.0))), BUDGET, "en", "light")
    bars = {bar.name: list(bar.x) for bar in figure.data}
    assert bars["listen"] == pytest.approx([70.0, 300.0, 80.0])
    assert bars["think"] == pytest.approx([30.0, 0.0, 40.0], abs=1e-6)
    assert bars["speak"] == pytest.approx([20.0, 90.0, 30.0])
    assert figure.layout.barmode == "stack"
    assert [line.x0 for line in figure.layout.shapes] == [150.0]
    texts = [a.text for a in figure.layout.annotations]
    assert "<b>120</b> ✓" in texts
    assert "<b>390</b> ✗" in texts


def test_a_waterfall_marks_drafts_and_cache_hits() -> None:
    rows = charts.waterfall((turn(4, drafted=True, cached=True),), BUDGET, "en", "dark").data[0].y
    assert "draft" in rows[0]
    assert "cache hit" in rows[0]


def test_a_waterfall_leaves_out_what_was_not_measured_and_keeps_the_newest() -> None:
    figure = charts.waterfall(demo_turns(), BUDGET, "en", "light", last=3)
    assert [name.split("<")[0] for name in figure.data[0].y] == ["Turn 4", "Turn 5", "Turn 7", "Budget"]


def test_a_waterfall_without_turns_still_shows_the_budget() -> None:
    assert list(charts.waterfall((), BUDGET, "zh", "light").data[0].y) == [say("fig.budget", "zh")]


def test_a_turn_under_way_is_not_drawn_even_when_it_already_sounds() -> None:
    assert charts.measured((turn(1, state=State.SPEAKING),)) == []


def test_a_staircase_starts_each_span_where_the_one_before_ended() -> None:
    view = turn(1, (70.0, 30.0, 20.0))
    assert view.spans is not None
    figure = charts.staircase(view, view.spans, BUDGET, "en", "light")
    starts = [bar.base[0] for bar in figure.data]
    assert starts[0::2] == pytest.approx([0.0, 80.0, 120.0])  # the budget behind
    assert starts[1::2] == pytest.approx([0.0, 70.0, 100.0])


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("theme", ["light", "dark", "unknown"])
def test_every_figure_can_be_drawn(lang: str, theme: str) -> None:
    turns = demo_turns()
    spread = charts.distribution(turns, lang, theme)
    assert [len(box.x) for box in spread.data] == [5, 5, 5, 5]
    trend = charts.trend(turns, BUDGET, lang, theme)
    assert list(trend.data[0].x) == [1, 2, 4, 5, 7]
    assert trend.data[3].y[0] == pytest.approx(408.0)


def test_a_span_of_nothing_says_why() -> None:
    view = turn(1, (70.0, 0.0, 0.0), drafted=True, cached=True)
    assert view.spans is not None
    assert charts.why_nothing(view, view.spans, "en") == [say("why.think-draft", "en"), say("why.speak-cached", "en")]
    plain = turn(1)
    assert plain.spans is not None
    assert charts.why_nothing(plain, plain.spans, "en") == []


# -- bubbles


def test_what_was_said_is_shown_literally() -> None:
    shown = Shown(bubbles.conversation((turn(1, heard=NASTY, reply=NASTY),), BUDGET, "en"))
    assert shown.text.count(NASTY) == 2
    assert "a" not in shown.tags


@given(st.text(), st.text())
def test_no_transcript_becomes_markup(heard: str, reply: str) -> None:
    def tags(view: TurnView) -> set[str]:
        return Shown(bubbles.conversation((view,), BUDGET, "en")).tags

    plain = turn(1, heard="x" if heard else "", reply="y" if reply else "")
    assert tags(turn(1, heard=heard, reply=reply)) == tags(plain)


@pytest.mark.parametrize(("lang", "expected"), [("en", "sounding happy"), ("zh", "听起来高兴")])
def test_how_the_caller_sounded_stands_beside_their_name(lang: str, expected: str) -> None:
    def text(emotion: str) -> str:
        return Shown(bubbles.conversation((turn(1, emotion=emotion),), BUDGET, lang)).text

    assert expected in text("happy")
    assert text("neutral") == text("unheard-of") == text("")


def test_an_interrupted_reply_strikes_what_was_not_spoken() -> None:
    view = turn(
        1,
        state=State.INTERRUPTED,
        reply="Delivery takes three  days. You will see.",
        spoken="Delivery takes three days. You",
    )
    html = bubbles.conversation((view,), BUDGET, "en")
    assert "<s> will see.</s>" in html
    assert say("talk.interrupted", "en") in html


@given(st.text(min_size=1), st.integers(0, 50))
def test_splitting_a_reply_loses_nothing(reply: str, upto: int) -> None:
    spoken = " ".join(reply[:upto].split())
    said, unsaid = bubbles.split_reply(turn(1, reply=reply, spoken=spoken))
    assert said + unsaid == reply
    assert "".join(said.split()) == "".join(spoken.split())


def test_what_was_heard_of_a_reply_that_does_not_match_is_shown_alone() -> None:
    assert bubbles.split_reply(turn(1, reply="One.", spoken="Two")) == ("Two", "")


@pytest.mark.parametrize("lang", LANGS)
def test_a_failed_turn_says_what_happened_and_what_to_do(lang: str) -> None:
    view = turn(1, None, state=State.FAILED, code=Code.LLM_TIMEOUT, reply="")
    text = Shown(bubbles.conversation((view,), BUDGET, lang)).text
    assert bubbles.of_error(Code.LLM_TIMEOUT, lang).do in text
    assert "llm.timeout" in text


def test_an_empty_conversation_says_what_to_do() -> None:
    assert "START" in Shown(bubbles.conversation((), BUDGET, "en")).text


def test_a_long_conversation_shows_the_newest_turns() -> None:
    turns = tuple(turn(n) for n in range(1, 31))
    text = Shown(bubbles.conversation(turns, BUDGET, "en")).text
    assert "Turn 30" in text
    assert "Turn 10\n" not in text
    assert "10 earlier turns" in text


def test_figures_are_dashes_before_the_first_turn_and_numbers_after() -> None:
    assert "–" in bubbles.figures((), BUDGET, "en")
    shown = Shown(bubbles.figures((turn(1), turn(2, (300.0, 0.0, 90.0))), BUDGET, "en")).text
    assert "50%" in shown
    assert "255 ms" in shown


def test_health_shows_gaps_false_starts_drafts_and_load() -> None:
    text = Shown(bubbles.health(FakeSession(demo_turns()).snapshot(), "en")).text
    for part in ("2 / 6", "67%", "1.2", "31", "0.4 s", "63%", "612 MB", "3 / 4210"):
        assert part in text


@pytest.mark.parametrize("lang", LANGS)
def test_a_turn_over_the_budget_names_its_reason_and_what_to_do(lang: str) -> None:
    slow, quick = turn(1, (600.0, 0.0, 20.0)), turn(2)
    advice = of_reason(Reason.SLOW_ENDPOINT, lang)
    text = Shown(bubbles.conversation((slow, quick), BUDGET, lang)).text
    assert text.count(advice.what) == text.count(advice.do) == 1


@pytest.mark.parametrize("lang", LANGS)
def test_reasons_are_ranked_over_the_visit(lang: str) -> None:
    rules = Rules(floor_ms=100)
    assert say("blame.none", lang) in reasons.ranked((turn(1),), BUDGET, rules, lang)
    slow = [turn(n, (600.0, 0.0, 20.0)) for n in (1, 2)]
    text = Shown(reasons.ranked((*slow, turn(3, (70.0, 900.0, 20.0))), BUDGET, rules, lang)).text
    first, second = (text.index(of_reason(r, lang).what) for r in (Reason.SLOW_ENDPOINT, Reason.LLM_SLOW))
    assert first < second


def test_a_notice_is_shown_while_it_is_fresh() -> None:
    fresh = notice(NoticeCode.SILENCE, at=100.0)
    assert "muted" in bubbles.notices([fresh], 105.0, "en")
    assert Shown(bubbles.notices([fresh], 200.0, "en")).text == ""


# -- files


def test_rows_hold_spans_and_marks_from_the_end_of_speech() -> None:
    (row,) = export.rows((turn(3, (70.0, 30.0, 20.0), drafted=True),), BUDGET)
    assert tuple(row) == export.COLUMNS
    assert (row["turn"], row["listen_ms"], row["total_ms"], row["inside_budget"]) == (3, 70.0, 120.0, True)
    assert row["endpoint_ms"] == 70.0
    assert row["speech_start_ms"] == -1800.0
    assert row["heard_ms"] is None


def test_every_mark_has_a_column() -> None:
    assert {f"{mark.value}_ms" for mark in Mark} <= set(export.COLUMNS)


def test_csv_can_be_read_back_and_runs_no_formula() -> None:
    turns = (turn(1, heard='=HYPERLINK("x")', reply="多少钱，\n元"), *demo_turns())
    raw = export.to_csv(export.rows(turns, BUDGET))
    assert raw.startswith(b"\xef\xbb\xbf")
    back = list(csv.DictReader(io.StringIO(raw.decode("utf-8-sig"), newline="")))
    assert len(back) == 9
    assert back[0]["heard"] == '\'=HYPERLINK("x")'
    assert back[0]["reply"] == "多少钱，\n元"
    assert back[3]["total_ms"] == ""


@pytest.mark.parametrize(
    "turns", [(), (turn(1, None, p_finished=None),), demo_turns()], ids=["none", "unmeasured", "demo"]
)
def test_parquet_keeps_types_whatever_is_missing(turns: tuple[TurnView, ...]) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(export.to_parquet(export.rows(turns, BUDGET))))
    assert table.num_rows == len(turns)
    assert str(table.schema.field("total_ms").type) == "double"
    assert str(table.schema.field("cached").type) == "bool"
    assert table.column_names == list(export.COLUMNS)
