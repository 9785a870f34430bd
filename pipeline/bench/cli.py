"""`python -m pipeline bench`: its arguments, what it prints while it runs, and its exit code."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.bench.callers import DEFAULT_FOLDER, BadCallers, Caller, read_callers
from pipeline.bench.environment import environment, load
from pipeline.bench.report import TurnResult, summary, table
from pipeline.bench.run import Cashier, Cost, Visit, ask_all
from pipeline.blame import Rules
from pipeline.cli import complain, given_settings, parser_with_set
from pipeline.errors import TurnaroundError
from pipeline.settings import Settings
from pipeline.timeline import Budget

FAILED, USAGE = 1, 2
ALL = "all"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a command line asks for."""

    callers: list[Caller]
    settings: Settings
    rounds: int
    serial: bool
    json: str  # a path, "-" for stdout, "" for none


def parser() -> argparse.ArgumentParser:
    out = parser_with_set(
        "python -m pipeline bench",
        "Recorded callers, in real time, through the session a visitor gets. Latencies count from the true end of\n"
        "speech in the manifest. Prints a table, writes JSON, and exits non-zero when a turn failed.",
    )
    out.add_argument(
        "--callers", type=Path, default=DEFAULT_FOLDER, metavar="DIR", help="folder of clips with a manifest.json"
    )
    out.add_argument("--lang", default="en", help="only the callers of this language, or 'all' (default %(default)s)")
    out.add_argument("--limit", type=count, metavar="N", help="only the first N callers")
    out.add_argument("--repeat", type=count, default=1, metavar="K", help="go through the callers K times")
    out.add_argument(
        "--mode",
        choices=("pipelined", "serial"),
        default="pipelined",
        help="serial: whole utterance, then whole reply, then whole audio (default %(default)s)",
    )
    out.add_argument(
        "--through",
        choices=("session", "browser"),
        default="session",
        help="browser: headless Chromium's microphone and loudspeaker, mouth to ear (default %(default)s)",
    )
    out.add_argument("--beeps", type=count, metavar="N", help="measure the transport alone, with N beeps in Chromium")
    out.add_argument(
        "--barge-in", action="store_true", help="interrupt every reply, and measure how soon it falls silent"
    )
    out.add_argument("--json", default="", metavar="FILE", help="write the report there; - is stdout")
    return out


def count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def main(args: list[str]) -> int:
    """Exit code: 0 when every turn was answered, 1 when something failed, 2 for a command line that makes no sense."""
    given = parser().parse_args(args)
    return excused(lambda: _measure(given), given.json)


def _measure(given: argparse.Namespace) -> int:
    settings = given_settings(given)
    if given.json not in ("", "-"):
        writable(Path(given.json))
    if given.beeps:
        return _beeps(given, settings)
    lang = None if given.lang == ALL else given.lang
    callers = read_callers(given.callers, lang, given.limit)
    plan = Plan(callers, settings, given.repeat, given.mode == "serial", given.json)
    if given.barge_in:
        return _barge_in(plan, given.through == "browser")
    return _through_browser(plan) if given.through == "browser" else run(plan, _sessions(plan))


def excused(measure: Callable[[], int], report: str) -> int:
    """Run `measure`; what goes wrong becomes words and an exit code. `report` is the file it was to write."""
    try:
        return measure()
    except (BadCallers, ValueError) as error:
        complain(str(error))
        return USAGE
    except OSError as error:
        complain(f"{error.filename or report}: {error.strerror}")
        return USAGE
    except TurnaroundError as error:
        complain(error.what, error.remedy)
        return FAILED


def writable(path: Path) -> None:
    """Find out now, not after minutes of measuring. OSError when the report cannot be written there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.open("a", encoding="utf-8").close()


def _sessions(plan: Plan) -> Callable[[], Visit]:
    """Load the engines, once; a fresh session for every caller."""
    from pipeline.build import load_engines, open_session

    said = ""

    def progress(what: str, _share: float) -> None:
        nonlocal said
        if what != said:
            said = what
            print(f"loading: {what}", file=sys.stderr, flush=True)

    engines = load_engines(plan.settings, progress)
    return lambda: open_session(engines, plan.settings, serial=plan.serial)


def run(plan: Plan, open_visit: Callable[[], Visit]) -> int:
    """Measure, print, write. The exit code."""
    cashier, turns, load_before = Cashier(), list[TurnResult](), load()
    total = len(plan.callers) * plan.rounds
    for turn in ask_all(open_visit, plan.callers, plan.rounds):
        turns.append(turn)
        cashier.look()
        ms = f"{turn.spans.total:.0f} ms" if turn.spans else "-"
        print(f"{len(turns)}/{total} {turn.file}: {turn.transcript!r} {ms}", file=sys.stderr, flush=True)
    return _conclude(plan, "session", turns, cashier.cost(), load_before)


def _through_browser(plan: Plan) -> int:
    from pipeline.bench import page

    print("Chromium is the caller: the page loads, then the clips are spoken in one call", file=sys.stderr, flush=True)
    load_before = load()
    turns, cost = page.ask_all(plan.callers, plan.rounds, plan.settings, plan.serial)
    return _conclude(plan, "browser", turns, cost, load_before)


def _barge_in(plan: Plan, in_page: bool) -> int:
    """Every reply is interrupted. Fails when there was nothing to measure."""
    from pipeline.bench import barge

    if in_page:
        found = barge.in_page(plan.callers, plan.rounds, plan.settings)
    else:
        found = list(barge.at_server(_sessions(plan), plan.callers, plan.rounds))
    report = {
        "through": "browser" if in_page else "session",
        "settings": plan.settings.model_dump(),
        "interruptions": [asdict(f) for f in found],
        "summary": barge.report(found),
        "environment": environment(),
    }
    publish(report, barge.table(found), plan.json)
    return 0 if any(f.silence_ms is not None for f in found) else FAILED


def _conclude(plan: Plan, through: str, turns: list[TurnResult], cost: Cost, load_before: float | None) -> int:
    """Table, report and exit code of what was measured."""
    budget, rules = budget_of(plan.settings), rules_of(plan.settings, plan.serial)
    found = summary(turns, budget, cost.rss_mb, cost.cpu_s, rules)
    report = {
        "through": through,
        "mode": "serial" if plan.serial else "pipelined",
        "settings": plan.settings.model_dump(),
        "turns": [t.as_dict(budget, rules) for t in turns],
        "summary": found,
        "environment": environment() | {"load_1m_before": load_before},
    }
    publish(report, table(turns, found, budget, rules), plan.json)
    failed = [t for t in turns if t.failed]
    if failed:
        complain(f"{len(failed)} of {len(turns)} turns failed: " + ", ".join(f"{t.file} {t.code}" for t in failed))
    return FAILED if failed else 0


def budget_of(settings: Settings) -> Budget:
    parts = (float(settings.budget_listen_ms), float(settings.budget_think_ms), float(settings.budget_speak_ms))
    return Budget(*parts, total=sum(parts))


def rules_of(settings: Settings, serial: bool) -> Rules:
    """What blame may expect of a run with these settings."""
    return Rules(float(settings.endpoint_floor_ms), openers=settings.openers and not serial)


def _beeps(given: argparse.Namespace, settings: Settings) -> int:
    """The transport alone, without any engine. Fails when a beep was not answered."""
    from pipeline.browser.beeps import beeps

    # Chromium is served by a process of its own, which takes its settings as pairs.
    measured = beeps(given.beeps, settings.transport, sets=[p for p in given.set if not p.startswith("transport=")])
    report = {"through": "browser", "beeps": measured.as_dict(), "environment": environment()}
    publish(report, measured.table(), given.json)
    return 0 if len(measured.beeps) == given.beeps else FAILED


def publish(report: dict[str, Any], lines: str, where: str) -> None:
    """The table to the terminal, the report to `where`; with "-" stdout is left to the JSON."""
    text = json.dumps(report, indent=2, ensure_ascii=False)
    print(lines, file=sys.stderr if where == "-" else sys.stdout)
    if where == "-":
        print(text)
    elif where:
        Path(where).write_text(text + "\n", encoding="utf-8")
