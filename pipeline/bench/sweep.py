"""`python -m pipeline sweep`: the bench over a grid of settings, as JSON and as a page with the chart of the trade."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from pipeline import trade
from pipeline.bench.callers import DEFAULT_FOLDER, Caller, read_callers
from pipeline.bench.cli import ALL, FAILED, budget_of, count, excused, publish, rules_of, writable
from pipeline.bench.environment import environment, load
from pipeline.bench.report import summary
from pipeline.bench.run import Cashier, Visit, ask_all
from pipeline.cli import complain, given_settings, parser_with_set
from pipeline.settings import Settings

Opening = Callable[[trade.Plan], Visit]


def parser() -> argparse.ArgumentParser:
    out = parser_with_set(
        "python -m pipeline sweep",
        "The bench over a grid of settings: false cut-ins against latency, one point a setting. The engines are\n"
        "loaded once. The default settings are always among the points. Exits non-zero when a turn failed.",
    )
    out.add_argument(
        "--over", action="append", default=[], metavar="NAME=V,V,...", help="values to try; several: every combination"
    )
    out.add_argument("--compare", action="store_true", help="also the serial and the undrafted, pipelined order")
    out.add_argument(
        "--callers", type=Path, default=DEFAULT_FOLDER, metavar="DIR", help="folder of clips with a manifest.json"
    )
    out.add_argument("--lang", default="en", help="only the callers of this language, or 'all' (default %(default)s)")
    out.add_argument("--limit", type=count, metavar="N", help="only the first N callers")
    out.add_argument("--repeat", type=count, default=1, metavar="K", help="go through the callers K times")
    out.add_argument("--json", default="", metavar="FILE", help="write the points there; - is stdout")
    out.add_argument(
        "--html", default="", metavar="FILE", help="write the chart there, as a page that needs no network"
    )
    return out


def main(args: list[str]) -> int:
    """Exit code: 0 when every turn was answered, 1 when something failed, 2 for a command line that makes no sense."""
    given = parser().parse_args(args)
    return excused(lambda: _measure(given), given.json)


def _measure(given: argparse.Namespace) -> int:
    settings = given_settings(given)
    plans = trade.grid(trade.axes(given.over), given.set, given.compare)
    for path in (given.json.removeprefix("-"), given.html):
        if path:
            writable(Path(path))
    callers = read_callers(given.callers, None if given.lang == ALL else given.lang, given.limit)
    return sweep(plans, callers, given.repeat, sessions(settings), given.json, given.html)


def sessions(settings: Settings) -> Opening:
    """Load the engines, once; a fresh session for every caller of every point."""
    from pipeline.build import load_engines, open_session

    engines = load_engines(settings, lambda _what, _share: None)
    return lambda plan: open_session(engines, plan.settings, serial=plan.serial)


def sweep(
    plans: Sequence[trade.Plan], callers: Sequence[Caller], rounds: int, opening: Opening, to_json: str, to_html: str
) -> int:
    """Measure every point, writing what there is after each. The exit code."""
    points: list[dict[str, Any]] = []
    failed = 0
    for number, plan in enumerate(plans, 1):
        point, lost = measure(plan, callers, rounds, opening, f"point {number}/{len(plans)}")
        points.append(point)
        failed += lost
        report = {"points": marked(points), "environment": environment()}
        # A sweep takes hours: what is measured is on the disk, whatever comes.
        if to_json not in ("", "-"):
            Path(to_json).write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    found = trade.read(json.dumps(report))
    if to_html:
        Path(to_html).write_text(page(found), encoding="utf-8")
    publish(report, table(found), to_json)
    if failed:
        complain(f"{failed} turns failed")
    return FAILED if failed else 0


def measure(
    plan: trade.Plan, callers: Sequence[Caller], rounds: int, opening: Opening, where: str
) -> tuple[dict[str, Any], int]:
    """One point as the JSON has it, and how many of its turns failed."""
    cashier, turns, load_before = Cashier(), [], load()
    for turn in ask_all(lambda: opening(plan), callers, rounds):
        turns.append(turn)
        cashier.look()
        ms = f"{turn.spans.total:.0f} ms" if turn.spans else "cut in" if turn.false_cut_in else turn.code or "-"
        done = f"{len(turns)}/{len(callers) * rounds}"
        print(f"{where} {plan.name} · {done} {turn.file}: {ms}", file=sys.stderr, flush=True)
    cost = cashier.cost()
    rules = rules_of(plan.settings, plan.serial)
    point = {
        "name": plan.name,
        "changes": dict(plan.changes),
        "serial": plan.serial,
        "default": plan.default,
        "settings": plan.settings.model_dump(),
        "summary": summary(turns, budget_of(plan.settings), cost.rss_mb, cost.cpu_s, rules),
        "load_1m_before": load_before,
    }
    return point, sum(t.failed for t in turns)


def marked(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The points, each told whether it is on the Pareto front."""
    best = {p.name for p in trade.front(trade.read(json.dumps({"points": points})))}
    return [{**p, "front": p["name"] in best} for p in points]


def table(points: Sequence[trade.Point]) -> str:
    """For the terminal: a line a point; * is the front."""
    best = trade.front(points)
    width = max(len(p.name) for p in points)
    lines = [f"  {'setting':<{width}}   p50 ms  p95 ms  cut-ins  turns"]
    for p in points:
        figures = "  nothing measured"
        if p.p50 is not None and p.p95 is not None and p.cut_ins is not None:
            figures = f"{p.p50:8.0f}{p.p95:8.0f}{p.cut_ins:9.1%}"
        lines.append(f"{'*' if p in best else ' '} {p.name:<{width}} {figures}{p.turns:7}")
    return "\n".join([*lines, "", "* on the Pareto front", explain(points)])


def explain(points: Sequence[trade.Point]) -> str:
    from pipeline.ui.tradeoff import explain as in_words

    return in_words(points, "en") or "the default was not measured: every turn of it was cut in upon or failed"


def page(points: Sequence[trade.Point]) -> str:
    """The chart and the table as one HTML page."""
    from pipeline.ui.tradeoff import figure

    chart = figure(points, "en").update_layout(template="plotly_white").to_html(full_html=False, include_plotlyjs=True)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Turnaround: the trade</title>'
        '<meta name="viewport" content="width=device-width"></head><body style="font-family:sans-serif;margin:2rem">'
        f"<h1>Speed against interruptions</h1><p>{escape(explain(points))}</p>{chart}<pre>{escape(table(points))}</pre>"
        "</body></html>"
    )
