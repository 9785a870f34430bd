"""What a bench found: one row a turn, a summary, and the machine it was measured on; as JSON and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.bench.words import Errors, pooled
from pipeline.blame import Blame, Rules, blame, ranking
from pipeline.events import Outcome, TurnView
from pipeline.settings import Settings
from pipeline.timeline import Budget, Percentiles, Spans, share_within

SPAN_NAMES = ("listen", "think", "speak", "total")
RULES = Rules(floor_ms=float(Settings().endpoint_floor_ms))


@dataclass(frozen=True, slots=True)
class TurnResult:
    """One caller's question and what became of it."""

    file: str
    round: int  # 1, 2, ...: which repetition
    kind: str
    marks_ms: Mapping[str, float]  # relative to the true end of speech
    spans: Spans | None  # from the true end; None when the reply came before it, or never
    transcript: str
    reply: str
    outcome: Outcome | None  # None: no turn was begun at all
    code: str  # of the error that ended the turn, or ""
    detail: str
    false_cut_in: bool  # an endpoint was decided before the true end of speech
    cached: bool
    drafted: bool
    underruns: int
    errors: Errors  # of the transcript
    fact_held: bool | None  # None: the question has no fact
    mouth_to_ear_ms: float | None = None  # true end in the microphone -> first reply sound in the page; browser only
    turn: TurnView | None = None  # the one that answered, as the session saw it
    # Over all turns of the call, also those that were cut in upon.
    drafts: int = 0
    draft_hits: int = 0
    drafts_dropped: int = 0
    wasted_tokens: int = 0
    slots: int = 0  # outbound frames
    late_slots: int = 0  # ... that left more than 8 ms late
    wasted_cpu_s: float = 0.0  # an estimate, see pipeline/ledger.py

    def blame(self, budget: Budget, rules: Rules) -> Blame | None:
        """Why it was over the budget, counted from the true end of speech; None when it was not."""
        return None if self.turn is None else blame(self.turn, self.spans, budget, rules)

    @property
    def failed(self) -> bool:
        """The caller asked and got nothing."""
        return self.outcome in (None, Outcome.FAILED)

    def as_dict(self, budget: Budget, rules: Rules) -> dict[str, Any]:
        why = self.blame(budget, rules)
        return {
            "file": self.file,
            "round": self.round,
            "kind": self.kind,
            "marks_ms": dict(self.marks_ms),
            "spans_ms": _rounded(self.spans.as_dict()) if self.spans else dict.fromkeys(SPAN_NAMES),
            "transcript": self.transcript,
            "reply": self.reply,
            "outcome": self.outcome.value if self.outcome else "none",
            "code": self.code,
            "detail": self.detail,
            "false_cut_in": self.false_cut_in,
            "cached": self.cached,
            "drafted": self.drafted,
            "underruns": self.underruns,
            "holds": self.turn.holds if self.turn else 0,
            "wer": round(self.errors.rate, 4),
            "fact_held": self.fact_held,
            "mouth_to_ear_ms": self.mouth_to_ear_ms,
            "drafts": self.drafts,
            "drafts_dropped": self.drafts_dropped,
            "wasted_tokens": self.wasted_tokens,
            "wasted_cpu_s": round(self.wasted_cpu_s, 3),
            "blame": why and {"stage": why.stage, "reason": why.reason.value, "over_ms": round(why.over_ms, 1)},
        }


def summary(
    turns: Sequence[TurnResult], budget: Budget, rss_mb: float, cpu_s: float, rules: Rules | None = None
) -> dict[str, Any]:
    """The figures over all turns. None where nothing was measured: never a made-up zero."""
    spans = [t.spans for t in turns if t.spans]
    found: dict[str, Any] = {f"{name}_ms": _percentiles(getattr(s, name) for s in spans) for name in SPAN_NAMES}
    wer, within = pooled(t.errors for t in turns), share_within((s.total for s in spans), budget)
    return {
        "turns": len(turns),
        "measured": len(spans),
        "total_ms": found.pop("total_ms"),
        **found,
        "mouth_to_ear_ms": _percentiles(t.mouth_to_ear_ms for t in turns if t.mouth_to_ear_ms is not None),
        "within_budget": _round(within),
        "false_cut_in_rate": _share(t.false_cut_in for t in turns),
        "wer": _round(wer),
        "fact_rate": _share(t.fact_held for t in turns if t.fact_held is not None),
        "underruns": sum(t.underruns for t in turns),
        "held_rate": _share(bool(t.turn and t.turn.holds) for t in turns),
        "late_slot_rate": _late(turns),
        "drafted_rate": _share(t.drafted for t in turns),
        "cached_rate": _share(t.cached for t in turns),
        **_drafting(turns),
        "blame": {r.value: n for r, n in ranking(t.blame(budget, rules or RULES) for t in turns).items()},
        "outcomes": dict(Counter(t.outcome.value if t.outcome else "none" for t in turns)),
        "rss_mb": round(rss_mb, 1),
        "cpu_s_per_turn": round(cpu_s / len(turns), 2) if turns else None,
    }


def _late(turns: Sequence[TurnResult]) -> float | None:
    slots = sum(t.slots for t in turns)
    return round(sum(t.late_slots for t in turns) / slots, 5) if slots else None


def _drafting(turns: Sequence[TurnResult]) -> dict[str, Any]:
    drafts = sum(t.drafts for t in turns)
    return {
        "drafts_per_turn": round(drafts / len(turns), 2) if turns else None,
        "draft_hit_rate": round(sum(t.draft_hits for t in turns) / drafts, 4) if drafts else None,
        "drafts_dropped": sum(t.drafts_dropped for t in turns),
        "wasted_tokens": sum(t.wasted_tokens for t in turns),
        "wasted_cpu_s": round(sum(t.wasted_cpu_s for t in turns), 2),
    }


def table(
    turns: Sequence[TurnResult], found: Mapping[str, Any], budget: Budget | None = None, rules: Rules | None = None
) -> str:
    """For the terminal: a line a turn, then the summary."""
    width = max((len(t.file) for t in turns), default=4)
    lines = [f"{'clip':<{width}}  listen  think  speak  total ms  cut-in  wer  fact  {'why':<13}  transcript | reply"]
    lines += [_line(t, width, t.blame(budget or Budget(), rules or RULES)) for t in turns]
    lines += ["", "from the true end of speech, ms       p50     p95     p99"]
    for name in ("mouth_to_ear", "total", "listen", "think", "speak"):
        p = found[f"{name}_ms"]
        if name == "mouth_to_ear" and not p:
            continue
        values = "".join(f"{p[q]:8.0f}" for q in ("p50", "p95", "p99")) if p else "  nothing measured"
        lines.append(f"  {name.replace('_', ' '):<30}{values}")
    shares = {
        "false cut-ins": "false_cut_in_rate",
        "word error rate": "wer",
        "replies holding the fact": "fact_rate",
        "inside the budget": "within_budget",
        "held its breath for nothing": "held_rate",
        "drafted before the endpoint": "drafted_rate",
        "first audio out of a cache": "cached_rate",
        "drafts that became the reply": "draft_hit_rate",
    }
    lines += [f"  {label:<30}{_percent(found[key]):>8}" for label, key in shares.items()]
    if found["drafts_per_turn"] is not None:
        wasted = f"{found['wasted_tokens']} tokens, {found['wasted_cpu_s']:.1f} CPU s (estimate) wasted"
        lines.append(
            f"  {'drafts a turn':<30}{found['drafts_per_turn']:8.1f}   {found['drafts_dropped']} dropped; {wasted}"
        )
    reasons = ", ".join(f"{n} {reason}" for reason, n in found["blame"].items())
    lines.append(f"  {'over the budget':<30}{sum(found['blame'].values()):8}   {reasons}".rstrip())
    outcomes = ", ".join(f"{n} {name}" for name, n in found["outcomes"].items())
    lines.append(f"  {'turns':<30}{found['turns']:8}   {outcomes}; {found['measured']} measured")
    lines.append(f"  {'underruns':<30}{found['underruns']:8}")
    if found["late_slot_rate"] is not None:
        lines.append(f"  {'outbound frames > 8 ms late':<30}{found['late_slot_rate']:8.2%}")
    lines.append(f"  {'memory (RSS), MB':<30}{found['rss_mb']:8.0f}")
    if found["cpu_s_per_turn"] is not None:
        lines.append(f"  {'CPU seconds a turn':<30}{found['cpu_s_per_turn']:8.1f}")
    return "\n".join(lines)


def _line(t: TurnResult, width: int, why: Blame | None) -> str:
    spans = t.spans.as_dict() if t.spans else {}
    cells = "".join(
        f"{spans[n]:{w}.0f}" if spans else f"{'-':>{w}}" for n, w in zip(SPAN_NAMES, (8, 7, 7, 10), strict=True)
    )
    fact = {None: "", True: "yes", False: "NO"}[t.fact_held]
    cut = "CUT IN" if t.false_cut_in else ""
    tail = f"{t.transcript} | {t.reply}" if not t.failed else f"FAILED {t.code} {t.detail}".rstrip()
    reason = why.reason.value if why else ""
    return f"{t.file:<{width}}{cells}  {cut:>6} {t.errors.rate:4.0%}  {fact:>4}  {reason:<13}  {tail}"


def _percentiles(values: Iterable[float]) -> dict[str, float] | None:
    found = Percentiles.of(values)
    return found.as_dict() if found else None


def _share(flags: Iterable[bool | None]) -> float | None:
    values = list(flags)
    return round(sum(map(bool, values)) / len(values), 4) if values else None


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {k: round(v, 1) for k, v in values.items()}


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
