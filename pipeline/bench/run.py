"""Callers through a session, one after the other, in real time; each meets a session that has heard nobody before.

Every latency is counted from the manifest's true end of speech, on the session's clock: the system's own idea of when
the caller ended is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from pipeline.audio import read_clip
from pipeline.bench.callers import Caller
from pipeline.bench.report import TurnResult
from pipeline.bench.words import errors
from pipeline.clock import cpu_seconds
from pipeline.events import Snapshot, TurnView
from pipeline.exchange import OUTCOMES
from pipeline.facts import holds
from pipeline.loopback import Line, Loopback
from pipeline.timeline import Mark, Spans

POLL_S = 0.02
SETTLE_S = 0.3  # quiet after the last turn before the caller hangs up
EMPTY_S = 2.0  # wait for a turn to begin at all: longer than the endpoint's ceiling


class Visit(Line, Protocol):
    """The part of a Session the bench uses."""

    def snapshot(self) -> Snapshot: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Cost:
    """What the run took from the machine."""

    rss_mb: float  # the most resident memory seen
    cpu_s: float  # user and system, of the whole process


class Cashier:
    """Adds up the cost of a run."""

    def __init__(self) -> None:
        import psutil

        self._process = psutil.Process()
        self._cpu = cpu_seconds()
        self._rss_mb = 0.0

    def look(self) -> None:
        self._rss_mb = max(self._rss_mb, self._process.memory_info().rss / 1e6)

    def cost(self) -> Cost:
        self.look()
        return Cost(self._rss_mb, cpu_seconds() - self._cpu)


def ask_all(open_visit: Callable[[], Visit], callers: Iterable[Caller], rounds: int) -> Iterator[TurnResult]:
    """Each caller `rounds` times, whole rounds after each other; results as they come.

    EngineError (from reading a clip or opening a session) ends the run.
    """
    callers = list(callers)
    for number in range(1, rounds + 1):
        for caller in callers:
            yield ask(open_visit, caller, number)


def ask(open_visit: Callable[[], Visit], caller: Caller, number: int) -> TurnResult:
    """One caller, one visit: plays the clip, waits until the reply has been spoken, hangs up."""
    clip = read_clip(caller.path)
    visit = open_visit()
    try:
        line = Loopback(visit, clip, floor_dbfs=caller.noise_dbfs).start()
        seen = _listen_out(visit, line)
        line.hang_up()
        line.join(2.0)
        return result(caller, number, seen, line.started_at + caller.speech_end_s)
    finally:
        visit.close()


def _listen_out(visit: Visit, line: Loopback) -> Snapshot:
    """Stay on the line until every turn has ended and none follows, or the loopback's tail is over."""
    clock = visit.clock
    quiet_since = clock.now()
    while True:
        seen = visit.snapshot()
        if not line.clip_over or any(not t.ended for t in seen.turns):
            quiet_since = clock.now()
        if line.done or clock.now() - quiet_since >= (SETTLE_S if seen.turns else EMPTY_S):
            return seen
        clock.sleep(POLL_S)


def result(caller: Caller, number: int, seen: Snapshot, true_end: float) -> TurnResult:
    """The row of one caller. `true_end`: when the last sound of the question arrived, on the session's clock."""
    turn = answering(seen.turns)
    joiner = "" if caller.lang == "zh" else " "
    transcript = joiner.join(t.heard for t in seen.turns if t.heard)
    outcome = OUTCOMES.get(turn.state) if turn else None
    reply = turn.reply if turn else ""
    return TurnResult(
        file=caller.file,
        round=number,
        kind=caller.kind,
        marks_ms=turn.timeline.ms_from(true_end) if turn else {},
        spans=spans(turn, true_end) if turn else None,
        transcript=transcript,
        reply=reply,
        outcome=outcome,
        code=str(turn.code or "") if turn else "",
        detail=turn.detail if turn else "no turn was begun",
        false_cut_in=any(t.timeline.marks.get(Mark.ENDPOINT, true_end) < true_end for t in seen.turns),
        cached=bool(turn and turn.cached),
        drafted=bool(turn and turn.drafted),
        turn=turn,
        drafts=sum(t.drafts for t in seen.turns),
        draft_hits=sum(t.drafted and Mark.ENDPOINT in t.timeline.marks for t in seen.turns),
        drafts_dropped=sum(t.drafts_dropped for t in seen.turns),
        wasted_tokens=sum(t.wasted_tokens for t in seen.turns),
        wasted_cpu_s=sum(t.wasted_s for t in seen.turns),
        underruns=seen.underruns,
        slots=seen.load.slots,
        late_slots=seen.load.late_slots,
        errors=errors(caller.text, transcript, caller.lang),
        fact_held=holds(caller.fact, reply) if caller.fact else None,
    )


def answering(turns: Sequence[TurnView]) -> TurnView | None:
    """The turn that answered the caller: the last one with words in it.

    A caller cut off in a pause has two turns, and it is the second that heard the question out.
    """
    spoken = [t for t in turns if not t.false_start]
    ranked = [*turns[-1:], *spoken]
    return ranked[-1] if ranked else None


def spans(turn: TurnView, true_end: float) -> Spans | None:
    """From the true end; None when the reply did not wait for it, for then there is no latency to speak of."""
    marks = turn.timeline.marks
    if min(marks.get(Mark.ENDPOINT, 0.0), marks.get(Mark.RELEASED, 0.0)) < true_end:
        return None
    return turn.timeline.spans(true_end)
