"""The Latency page. It looks for new turns now and then; figures and table change only when there is one."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pipeline.events import TurnView
from pipeline.timeline import Budget, Spans
from pipeline.ui import bubbles, charts, controls, export, live, reasons
from pipeline.ui.resources import Visit, all_turns
from pipeline.ui.words import say

POLL_S = 2.0
WATERFALL_ROWS = 30
TABLE_HEIGHT = 320
TALLEST = 620
_FILE = "turnaround-turns"


@st.fragment(run_every=POLL_S)
def page(visit: Visit, lang: str) -> None:
    """Everything on the page, or what to do while there is nothing to show."""
    turns = tuple(t for t in all_turns(visit.after_the_gap()) if t.ended)
    budget = controls.budget(controls.current())
    st.subheader(say("lat.heading", lang), anchor=False)
    known = charts.measured(turns)
    if not known:
        st.info(say("lat.empty", lang))
        st.page_link("pages/conversation.py", label=say("lat.go", lang), icon=":material/arrow_back:")
        return
    st.caption(say("lat.refresh", lang))
    st.html(bubbles.figures(turns, budget, lang))
    left, right = st.columns(2, gap="medium")
    with left:
        _every_turn(turns, budget, lang)
    with right:
        _one_turn(turns, known, budget, lang)
        st.markdown(f"**{say('blame.heading', lang)}**", help=say("blame.about", lang))
        st.html(reasons.ranked(turns, budget, controls.rules(controls.current()), lang))
        _distribution(turns, budget, lang)
    _trend(turns, budget, lang)
    _table(turns, budget, lang)


def _every_turn(turns: tuple[TurnView, ...], budget: Budget, lang: str) -> None:
    st.markdown(f"**{say('lat.waterfalls', lang)}**")
    made = live.figure(
        "every",
        turns,
        budget,
        lang,
        lambda: charts.waterfall(turns, budget, lang, live.theme(), last=WATERFALL_ROWS),
    )
    rows = min(len(charts.measured(turns)), WATERFALL_ROWS)
    with st.container(height=min(charts.waterfall_height(rows) + 8, TALLEST), border=False, key="every"):
        st.plotly_chart(made, key="every-figure", config=charts.CONFIG, alt=say("fig.alt-waterfall", lang))


def _one_turn(turns: tuple[TurnView, ...], known: list[tuple[TurnView, Spans]], budget: Budget, lang: str) -> None:
    """A turn of the visitor's choice, the newest at first: its three spans, and why one is nothing."""
    by_number = {t.number: (t, s) for t, s in known}
    number = st.selectbox(
        say("lat.one", lang),
        list(reversed(by_number)),
        format_func=lambda n: say("turn.n", lang, n=n),
        key="lat.turn",
    )
    turn, spans = by_number[number if number in by_number else known[-1][0].number]
    made = live.figure(
        f"one-{turn.number}", turns, budget, lang, lambda: charts.staircase(turn, spans, budget, lang, live.theme())
    )
    st.plotly_chart(made, key="one-figure", config=charts.CONFIG, alt=say("fig.alt-waterfall", lang))
    if why := reasons.line(turn, budget, controls.rules(controls.current()), lang):
        st.html(why)
    for line in [*charts.labels(turn, lang), *charts.why_nothing(turn, spans, lang)]:
        st.text(f"· {line}")


def _distribution(turns: tuple[TurnView, ...], budget: Budget, lang: str) -> None:
    st.markdown(f"**{say('lat.distribution', lang)}**")
    made = live.figure("spread", turns, budget, lang, lambda: charts.distribution(turns, lang, live.theme()))
    st.plotly_chart(made, key="spread-figure", config=charts.CONFIG, alt=say("fig.alt-distribution", lang))


def _trend(turns: tuple[TurnView, ...], budget: Budget, lang: str) -> None:
    st.markdown(f"**{say('lat.trend', lang)}**")
    made = live.figure("trend", turns, budget, lang, lambda: charts.trend(turns, budget, lang, live.theme()))
    st.plotly_chart(made, key="trend-figure", config=charts.CONFIG, alt=say("fig.alt-trend", lang))


def _table(turns: tuple[TurnView, ...], budget: Budget, lang: str) -> None:
    """The figures of every turn, and all that is known of them as files."""
    st.markdown(f"**{say('lat.table', lang)}**")
    table = live.figure("rows", turns, budget, lang, lambda: _kept(turns, budget))
    st.dataframe(
        [_shown(row, lang) for row in reversed(table["rows"])],
        height=TABLE_HEIGHT,
        hide_index=True,
        placeholder="–",
        column_config={
            say(f"col.{k}", lang): st.column_config.NumberColumn(format="%.0f")
            for k in ("listen", "think", "speak", "total")
        },
        key="turns-table",
    )
    with st.container(horizontal=True):
        st.download_button(
            say("lat.csv", lang), table["csv"], f"{_FILE}.csv", "text/csv", key="csv", on_click="ignore",
            icon=":material/download:",
        )  # fmt: skip
        st.download_button(
            say("lat.parquet", lang), table["parquet"], f"{_FILE}.parquet", "application/vnd.apache.parquet",
            key="parquet", on_click="ignore", icon=":material/download:",
        )  # fmt: skip
    st.caption(say("lat.privacy", lang))


def _kept(turns: tuple[TurnView, ...], budget: Budget) -> dict[str, Any]:
    rows = export.rows(turns, budget)
    return {"rows": rows, "csv": export.to_csv(rows), "parquet": export.to_parquet(rows)}


def _shown(row: dict[str, Any], lang: str) -> dict[str, Any]:
    """The columns a reader looks at, in words."""
    return {
        say("col.turn", lang): row["turn"],
        say("col.outcome", lang): say(f"state.{row['state']}", lang),
        say("col.listen", lang): row["listen_ms"],
        say("col.think", lang): row["think_ms"],
        say("col.speak", lang): row["speak_ms"],
        say("col.total", lang): row["total_ms"],
        say("col.drafted", lang): row["drafted"],
        say("col.cached", lang): row["cached"],
        say("col.heard", lang): row["heard"],
        say("col.reply", lang): row["reply"],
        say("col.problem", lang): row["code"],
    }
