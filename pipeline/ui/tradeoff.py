"""The chart of the trade: false cut-ins against latency, one point a setting. Pure, for the page and for a report."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from pipeline.trade import Point, better_than_default, default_of, front
from pipeline.ui.words import say

P50, P95, FRONT, DEFAULT = "#2A72BF", "#8C7AE6", "#158563", "#E69F00"
HEIGHT = 420


def figure(points: Sequence[Point], lang: str) -> go.Figure:
    """p50 as filled points, p95 as hollow ones, the Pareto front as a line, the default as a star."""
    drawn = [p for p in points if p.drawn]
    best = front(points)
    out = go.Figure()
    out.add_scatter(
        x=[p.p50 for p in best], y=[_percent(p) for p in best], mode="lines", name=say("trade.front", lang),
        line={"color": FRONT, "width": 3, "shape": "hv"}, hoverinfo="skip",
    )  # fmt: skip
    out.add_scatter(
        x=[p.p95 for p in drawn if p.p95 is not None], y=[_percent(p) for p in drawn if p.p95 is not None],
        mode="markers", name="p95", customdata=[[p.name] for p in drawn if p.p95 is not None],
        marker={"color": P95, "symbol": "circle-open", "size": 9}, hovertemplate=_hover("p95", lang),
    )  # fmt: skip
    _p50(out, [p for p in drawn if not p.default], "p50", {"color": P50, "size": 11}, lang)
    chosen = default_of(points)
    if chosen is not None:
        star = {"color": DEFAULT, "symbol": "star", "size": 18, "line": {"color": "#1B1B1B", "width": 1}}
        _p50(out, [chosen], say("trade.default", lang), star, lang)
    for point in (p for p in drawn if p.name in ("serial", "pipelined")):
        out.add_annotation(
            x=point.p50, y=_percent(point), text=say(f"trade.{point.name}", lang), showarrow=False, yshift=14
        )
    out.update_layout(
        height=HEIGHT,
        margin={"l": 8, "r": 16, "t": 24, "b": 90},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        dragmode=False,
        legend={"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom"},
    )
    out.update_xaxes(title=say("trade.x", lang), rangemode="tozero", fixedrange=True, zeroline=False)
    out.update_yaxes(title=say("trade.y", lang), rangemode="tozero", fixedrange=True, zeroline=False, ticksuffix=" %")
    return out


def _p50(out: go.Figure, points: Sequence[Point], name: str, marker: dict[str, object], lang: str) -> None:
    out.add_scatter(
        x=[p.p50 for p in points], y=[_percent(p) for p in points], mode="markers", name=name, marker=marker,
        customdata=[[p.name] for p in points], hovertemplate=_hover("p50", lang),
    )  # fmt: skip


def _hover(name: str, lang: str) -> str:
    return f"%{{customdata[0]}}<br>{name} %{{x:.0f}} {say('fig.ms-short', lang)} · %{{y:.1f}} %<extra></extra>"


def _percent(point: Point) -> float:
    return 100 * (point.cut_ins or 0.0)


def explain(points: Sequence[Point], lang: str) -> str:
    """The default in one sentence; "" when it was not measured."""
    default = default_of(points)
    if default is None or default.p50 is None or default.cut_ins is None:
        return ""
    rival = better_than_default(points)
    values = {"p50": f"{default.p50:.0f}", "cut": f"{default.cut_ins:.1%}", "n": default.turns}
    if rival is None:
        return say("trade.on-front", lang, **values)
    return say("trade.beaten", lang, **values, name=rival.name)


def label(point: Point, lang: str) -> str:
    """A point in a list: its settings and its figures."""
    if point.p50 is None or point.cut_ins is None:
        return f"{point.name}: –"
    return say("trade.label", lang, name=point.name, p50=f"{point.p50:.0f}", cut=f"{point.cut_ins:.1%}")
