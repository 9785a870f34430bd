"""The trade between speed and interruptions: the grid of settings a sweep measures, and what its points say. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from pipeline.settings import Settings, parse_set, tunables

SERIAL, PIPELINED, DRAFTED = "serial", "pipelined", "drafted"
COMPARED: Mapping[str, tuple[str, ...]] = {
    SERIAL: (),
    PIPELINED: ("draft=false", "openers=false"),
    DRAFTED: (),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """One point to measure."""

    name: str
    settings: Settings
    changes: Mapping[str, Any]  # what is not the default, and can be applied to a running session
    serial: bool = False
    default: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """One point, measured. None where nothing was."""

    name: str
    changes: Mapping[str, Any]
    p50: float | None  # ms from the true end of speech to the first sound
    p95: float | None
    cut_ins: float | None  # share of callers cut in upon, 0..1
    turns: int
    serial: bool = False
    default: bool = False

    @property
    def drawn(self) -> bool:
        return self.p50 is not None and self.cut_ins is not None


class BadTrade(ValueError):
    """The file is no sweep; the message says what is wrong with it."""


def axes(given: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """`["endpoint_floor_ms=80,120"]` as names and values. ValueError in plain words."""
    live = {t.name for t in tunables() if t.live}
    out: dict[str, tuple[str, ...]] = {}
    for pair in given:
        name, eq, text = pair.partition("=")
        name = name.strip().replace("-", "_")
        values = tuple(dict.fromkeys(v.strip() for v in text.split(",") if v.strip()))
        if not eq or not values:
            raise ValueError(f"--over takes NAME=VALUE,VALUE,..., not {pair!r}")
        if name in Settings.model_fields and name not in live:
            raise ValueError(f"--over {name}: the engines are loaded once for all points; use --set and one run each")
        if name in out:
            raise ValueError(f"--over names {name} twice")
        out[name] = values
    return out


def grid(over: Mapping[str, Sequence[str]], fixed: Sequence[str] = (), compare: bool = False) -> list[Plan]:
    """Every combination, the default among them (added when the grid lacks it); then the three modes to compare.

    `fixed` holds for every point. ValueError when a combination does not fit together.
    """
    plain = parse_set(fixed)
    plans = [
        _plan([f"{n}={v}" for n, v in zip(over, values, strict=True)], plain) for values in product(*over.values())
    ]
    if not any(p.default for p in plans):
        plans.insert(0, _plan([], plain))
    if compare:
        plans += [_plan(sets, plain, mode) for mode, sets in COMPARED.items() if mode != DRAFTED]
        plans = [_renamed(p) if p.default else p for p in plans]
    return plans


def _plan(pairs: Sequence[str], plain: Settings, mode: str = "") -> Plan:
    settings = parse_set(pairs, plain)
    live = [t for t in tunables() if t.live]
    changes = {t.name: getattr(settings, t.name) for t in live if getattr(settings, t.name) != t.default}
    name = mode or ", ".join(pairs) or "default"
    return Plan(name, settings, changes, serial=mode == SERIAL, default=not mode and settings == plain)


def _renamed(plan: Plan) -> Plan:
    return Plan(f"{DRAFTED} ({plan.name})", plan.settings, plan.changes, default=True)


def front(points: Sequence[Point]) -> tuple[Point, ...]:
    """The Pareto front: the points that no other one beats in speed (p50) without interrupting more, or the other way.

    By speed, the fastest first. Of equal points all are on it.
    """
    drawn = [p for p in points if p.drawn]
    return tuple(sorted((p for p in drawn if not any(beats(q, p) for q in drawn)), key=_place))


def beats(one: Point, other: Point) -> bool:
    """Whether `one` is at least as good in both and better in one."""
    a, b = _place(one), _place(other)
    return a != b and a[0] <= b[0] and a[1] <= b[1]


def _place(point: Point) -> tuple[float, float]:
    assert point.p50 is not None, "drawn points only"
    assert point.cut_ins is not None, "drawn points only"
    return point.p50, point.cut_ins


def default_of(points: Sequence[Point]) -> Point | None:
    return next((p for p in points if p.default and p.drawn), None)


def better_than_default(points: Sequence[Point]) -> Point | None:
    """The fastest point that beats the default; None when the default is on the front (or was not measured)."""
    default = default_of(points)
    return None if default is None else next((p for p in front(points) if beats(p, default)), None)


def read(text: str) -> tuple[Point, ...]:
    """The points of a sweep's JSON. BadTrade when it is none."""
    try:
        return tuple(_point(p) for p in json.loads(text)["points"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadTrade(f"this is not the JSON of a sweep: {type(error).__name__}: {error}") from error


def _point(found: Mapping[str, Any]) -> Point:
    summary = found["summary"]
    total = summary["total_ms"] or {}
    return Point(
        name=str(found["name"]),
        changes=dict(found["changes"]),
        p50=_number(total.get("p50")),
        p95=_number(total.get("p95")),
        cut_ins=_number(summary["false_cut_in_rate"]),
        turns=int(summary["turns"]),
        serial=bool(found["serial"]),
        default=bool(found["default"]),
    )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def settings_of(point: Point, now: Settings) -> dict[str, Any]:
    """The live settings that change `now` into `point`: what it does not name goes back to its default, except for
    the budget on screen and the scenario, which are no part of the trade. ValueError for names or values unknown here.
    """
    if point.serial:
        raise ValueError("the serial mode is no setting of a running session")
    kept = {"budget", "engines", "safety"}
    wanted = {t.name: t.default for t in tunables() if t.live and t.group not in kept}
    wanted |= {n: v for n, v in point.changes.items() if n in wanted or n not in Settings.model_fields}
    now.changed(**wanted)
    return wanted
