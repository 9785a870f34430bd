"""Marks, spans and the budget: every latency in this project is computed here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

import numpy as np


class Mark(StrEnum):
    """An instant of a turn on the server's one monotonic clock."""

    SPEECH_START = "speech_start"
    SPEECH_END = "speech_end"  # arrival of the last voiced sample, dated back by the endpointer
    ENDPOINT = "endpoint"  # the decision that the caller has finished
    TRANSCRIPT = "transcript"  # the text the reply was made from
    JUDGED = "judged"  # the turn model said what it makes of the sound
    WEIGHED = "weighed"  # the language model said what it makes of the words
    FIRST_TOKEN = "first_token"
    FIRST_PHRASE = "first_phrase"
    FIRST_AUDIO = "first_audio"  # first PCM out of the TTS
    RELEASED = "released"  # the transport pulled the first sounding sample
    HEARD = "heard"  # RELEASED + downlink from the browser's statistics: an estimate


@dataclass(frozen=True, slots=True)
class Spans:
    """The three budgeted spans of one turn, end to end; they sum to the total. Milliseconds."""

    listen: float  # SPEECH_END -> max(ENDPOINT, TRANSCRIPT)
    think: float  # -> FIRST_PHRASE, 0 when a draft had it ready
    speak: float  # -> RELEASED
    total: float  # SPEECH_END -> RELEASED

    def as_dict(self) -> dict[str, float]:
        return {"listen": self.listen, "think": self.think, "speak": self.speak, "total": self.total}


@dataclass(frozen=True, slots=True)
class Budget:
    """The target of each span, milliseconds."""

    listen: float = 80.0
    think: float = 40.0
    speak: float = 30.0
    total: float = 150.0


@dataclass(frozen=True, slots=True)
class Timeline:
    """The marks of one turn: seconds on the session's clock. Immutable; `stamped` gives the next one."""

    marks: Mapping[Mark, float] = field(default_factory=lambda: MappingProxyType({}))

    def stamped(self, mark: Mark, at: float) -> Timeline:
        """With `mark` at `at` seconds. The first stamp of a mark stands: a later one changes nothing."""
        if mark in self.marks:
            return self
        return Timeline(MappingProxyType({**self.marks, mark: at}))

    def restamped(self, mark: Mark, at: float) -> Timeline:
        """With `mark` moved to `at`: for what is revised until it is final (the end of speech)."""
        return Timeline(MappingProxyType({**self.marks, mark: at}))

    def without(self, *marks: Mark) -> Timeline:
        """With these marks gone: a dropped draft's instants are not the turn's."""
        return Timeline(MappingProxyType({m: t for m, t in self.marks.items() if m not in marks}))

    def ms_from(self, origin: float) -> dict[str, float]:
        """Each mark in milliseconds after `origin` (seconds), by mark name."""
        return {m.value: round((t - origin) * 1e3, 1) for m, t in sorted(self.marks.items(), key=lambda p: p[1])}

    def spans(self, speech_end: float | None = None) -> Spans | None:
        """The budgeted spans, or None while the turn has not been heard out and answered.

        `speech_end` replaces the system's own SPEECH_END with the true one (a bench knows it from its manifest).
        """
        m = self.marks
        start = m.get(Mark.SPEECH_END) if speech_end is None else speech_end
        if start is None or not all(k in m for k in (Mark.ENDPOINT, Mark.TRANSCRIPT, Mark.FIRST_PHRASE, Mark.RELEASED)):
            return None
        listened = max(m[Mark.ENDPOINT], m[Mark.TRANSCRIPT])
        thought = max(listened, m[Mark.FIRST_PHRASE])
        released = m[Mark.RELEASED]
        return Spans(
            listen=(listened - start) * 1e3,
            think=(thought - listened) * 1e3,
            speak=(released - thought) * 1e3,
            total=(released - start) * 1e3,
        )


@dataclass(frozen=True, slots=True)
class Percentiles:
    """p50, p95 and p99 of a distribution, and how many values it rests on."""

    p50: float
    p95: float
    p99: float
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Percentiles | None:
        """None for an empty distribution: no figure is better than a made-up one."""
        a = np.asarray(list(values), dtype=np.float64)
        if a.size == 0:
            return None
        p50, p95, p99 = (float(v) for v in np.percentile(a, (50, 95, 99)))
        return cls(round(p50, 1), round(p95, 1), round(p99, 1), int(a.size))

    def as_dict(self) -> dict[str, float]:
        return {"p50": self.p50, "p95": self.p95, "p99": self.p99, "n": self.n}


def share_within(totals: Iterable[float], budget: Budget) -> float | None:
    """Share (0..1) of turns whose total is inside the budget; None without turns."""
    values = list(totals)
    return None if not values else sum(t <= budget.total for t in values) / len(values)
