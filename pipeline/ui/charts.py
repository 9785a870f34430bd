"""The figures of the pages: pure functions from turns to plotly figures. Nothing here knows Streamlit.

Colours are told apart by people who confuse red and green (Okabe and Ito), and work on both themes; no meaning hangs
on colour alone: every bar carries its number. Text colours are left to the page's theme.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import plotly.graph_objects as go

from pipeline.events import TurnView
from pipeline.timeline import Budget, Spans
from pipeline.ui.words import say

COLOURS = {"listen": "#2A72BF", "think": "#E69F00", "speak": "#158563", "total": "#8C7AE6"}
SPANS = ("listen", "think", "speak")
NOTHING_MS = 0.5  # a span shorter than this is shown as 0 and explained
_MARGIN = {"l": 8, "r": 8, "t": 28, "b": 64}
_LINE = {"light": "#C0392B", "dark": "#FF8A7A"}
_LEGEND = {
    "orientation": "h",
    "x": 0,
    "y": 0,
    "yref": "container",
    "yanchor": "bottom",
    "traceorder": "normal",
    "itemclick": False,
    "itemdoubleclick": False,
}
_VERDICT_ROOM = 1.28  # of the longest bar: the totals stand to the right of it, in line
_NUMBER_SHARE = 0.085  # of the width: what three digits need on a phone
_GHOST = "rgba(128,128,128,0.28)"
CONFIG = {"displayModeBar": False, "scrollZoom": False, "doubleClick": False}


def measured(turns: Sequence[TurnView]) -> list[tuple[TurnView, Spans]]:
    """The ended turns that were answered in sound, with their spans, oldest first."""
    return [(t, t.spans) for t in turns if t.ended and t.spans is not None]


def labels(turn: TurnView, lang: str) -> list[str]:
    """What ran early in a turn, in words: draft, cache hit."""
    return [say(f"label.{k}", lang) for k, on in (("draft", turn.drafted), ("cached", turn.cached)) if on]


def why_nothing(turn: TurnView, spans: Spans, lang: str) -> list[str]:
    """For each span that took no time, the reason in words. Empty when all three took some."""
    reasons = []
    if spans.listen < NOTHING_MS:
        reasons.append(say("why.listen", lang))
    if spans.think < NOTHING_MS:
        reasons.append(say("why.think-draft" if turn.drafted else "why.think", lang))
    if spans.speak < NOTHING_MS:
        key = "why.speak-cached" if turn.cached else "why.speak-draft" if turn.drafted else "why.speak"
        reasons.append(say(key, lang))
    return reasons


def waterfall(turns: Sequence[TurnView], budget: Budget, lang: str, theme: str, last: int = 8) -> go.Figure:
    """One row a turn, newest on top: listen, think and speak end to end, under a row that shows the budget.

    `turns` may hold turns that were not measured: they are left out. `last` bounds the rows.
    """
    shown = measured(turns)[-last:]
    names = [_row_name(t, lang) for t, _ in shown]
    rows = [*names, say("fig.budget", lang)]
    width = max([budget.total, *(s.total for _, s in shown)]) * _VERDICT_ROOM
    figure = go.Figure()
    for span in SPANS:
        lengths = [*(max(0.0, getattr(s, span)) for _, s in shown), getattr(budget, span)]
        figure.add_bar(
            y=rows,
            x=lengths,
            orientation="h",
            name=say(f"fig.{span}", lang),
            marker={"color": COLOURS[span], "opacity": [*[1.0] * len(shown), 0.55]},
            text=[*(_inside(v, width) for v in lengths[:-1]), ""],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"color": "#1B1B1B" if span == "think" else "#FFFFFF"},
            constraintext="none",
            hovertemplate=say(f"fig.{span}", lang) + " %{x:.0f} " + say("fig.ms-short", lang),
            hoverlabel={"namelength": 0},
        )
    for name, (_, spans) in zip(names, shown, strict=True):
        figure.add_annotation(y=name, x=1, xref="paper", text=_verdict(spans, budget), showarrow=False, xanchor="right")
    allowed = " / ".join(f"{getattr(budget, span):.0f}" for span in SPANS)
    figure.add_annotation(y=rows[-1], x=1, xref="paper", text=allowed, showarrow=False, xanchor="right")
    _budget_line(figure, budget, lang, theme)
    _shape(figure, height=waterfall_height(len(shown)), barmode="stack", bargap=0.32)
    figure.update_xaxes(range=[0, width], fixedrange=True, **_x_title(lang))
    figure.update_yaxes(categoryorder="array", categoryarray=rows, fixedrange=True, automargin=True)
    return figure


def waterfall_height(rows: int) -> int:
    """Pixels of a waterfall with this many turns."""
    return 140 + 36 * max(rows, 1)


def staircase(turn: TurnView, spans: Spans, budget: Budget, lang: str, theme: str) -> go.Figure:
    """One turn, one row a span: where it began and ended, its budget as a pale bar behind it."""
    figure = go.Figure()
    rows = [say(f"fig.{s}", lang) for s in SPANS]
    at, allowed_at = 0.0, 0.0
    for span, row in zip(SPANS, rows, strict=True):
        length, allowed = max(0.0, getattr(spans, span)), getattr(budget, span)
        ghost = {"y": [row], "x": [allowed], "base": [allowed_at], "orientation": "h", "width": 0.8}
        figure.add_bar(**ghost, marker={"color": _GHOST}, hoverinfo="skip", showlegend=False)
        bar = {"y": [row], "x": [length], "base": [at], "orientation": "h", "width": 0.44}
        figure.add_bar(**bar, marker={"color": COLOURS[span]}, showlegend=False, hoverinfo="skip")
        text = f"<b>{length:.0f}</b> / {allowed:.0f}"
        figure.add_annotation(y=row, x=1, xref="paper", text=text, showarrow=False, xanchor="right")
        at, allowed_at = at + length, allowed_at + allowed
    _budget_line(figure, budget, lang, theme)
    _shape(figure, height=210, barmode="overlay", bargap=0.2)
    figure.update_xaxes(range=[0, max(at, budget.total) * _VERDICT_ROOM], fixedrange=True, **_x_title(lang))
    figure.update_yaxes(categoryorder="array", categoryarray=rows[::-1], fixedrange=True, automargin=True)
    return figure


def distribution(turns: Sequence[TurnView], lang: str, theme: str) -> go.Figure:
    """A box for each span and the total, with every turn as a point beside it."""
    del theme  # no colour here depends on it; the caller's cache key does
    figure = go.Figure()
    known = measured(turns)
    for span in (*SPANS, "total"):
        figure.add_box(
            x=[getattr(s, span) for _, s in known],
            name=say(f"fig.{span}", lang),
            boxpoints="all",
            jitter=0.5,
            pointpos=0,
            marker={"color": COLOURS[span], "size": 5, "opacity": 0.7},
            line={"color": COLOURS[span]},
            showlegend=False,
            hovertemplate="%{x:.0f} " + say("fig.ms-short", lang),
        )
    _shape(figure, height=300)
    figure.update_xaxes(rangemode="tozero", **_x_title(lang, "fig.ms-short"))
    figure.update_yaxes(autorange="reversed", automargin=True)
    return figure


def trend(turns: Sequence[TurnView], budget: Budget, lang: str, theme: str) -> go.Figure:
    """The spans of every turn stacked along the visit, the running median of the total and the budget line."""
    known = measured(turns)
    numbers = [t.number for t, _ in known]
    figure = go.Figure()
    for span in SPANS:
        figure.add_bar(
            x=numbers,
            y=[max(0.0, getattr(s, span)) for _, s in known],
            name=say(f"fig.{span}", lang),
            marker={"color": COLOURS[span]},
            hovertemplate=say(f"fig.{span}", lang) + " %{y:.0f} " + say("fig.ms-short", lang),
        )
    totals = [s.total for _, s in known]
    figure.add_scatter(
        x=numbers,
        y=[median(totals[max(0, i - 4) : i + 1]) for i in range(len(totals))],
        name=say("fig.median", lang),
        mode="lines+markers",
        line={"color": COLOURS["total"], "width": 3},
        hovertemplate=say("fig.median", lang) + " %{y:.0f} " + say("fig.ms-short", lang),
    )
    figure.add_hline(y=budget.total, line={"color": _LINE[_known(theme)], "dash": "dash", "width": 2})
    _shape(figure, height=320, barmode="stack")
    figure.update_xaxes(dtick=1 if len(numbers) <= 20 else None, **_x_title(lang, "fig.turn"))
    figure.update_yaxes(rangemode="tozero", title=say("fig.ms-short", lang), zeroline=False)
    return figure


def _known(theme: str) -> str:
    return theme if theme in _LINE else "light"


def _row_name(turn: TurnView, lang: str) -> str:
    """The turn and, on a second line, what ran early: the space beside the bars is kept for the totals."""
    early = labels(turn, lang)
    name = say("turn.n", lang, n=turn.number)
    return f"{name}<br><sup>{' · '.join(early)}</sup>" if early else name


def _inside(value: float, width: float) -> str:
    # A number wider than its bar would run into the next one.
    return f"{value:.0f}" if value >= width * _NUMBER_SHARE else ""


def _verdict(spans: Spans, budget: Budget) -> str:
    return f"<b>{spans.total:.0f}</b> {'✓' if spans.total <= budget.total else '✗'}"


def _x_title(lang: str, key: str = "fig.ms") -> dict[str, Any]:
    return {"title": {"text": say(key, lang), "standoff": 6, "font": {"size": 12}}, "zeroline": False}


def _budget_line(figure: go.Figure, budget: Budget, lang: str, theme: str) -> None:
    colour = _LINE[_known(theme)]
    figure.add_vline(x=budget.total, line={"color": colour, "dash": "dash", "width": 2})
    figure.add_annotation(
        x=budget.total,
        y=1,
        yref="paper",
        yanchor="bottom",
        text=say("fig.line", lang, ms=f"{budget.total:.0f}"),
        showarrow=False,
        font={"color": colour},
    )


def _shape(figure: go.Figure, **layout: Any) -> None:
    figure.update_layout(
        margin=_MARGIN,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        legend={**_LEGEND},
        dragmode=False,
        **layout,
    )
