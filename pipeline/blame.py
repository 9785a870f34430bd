"""Why a turn was over its budget: the stage that overran most, and one reason. Pure; reads a turn's marks and counters.

The rules follow what the reply really waited for: the later of endpoint and transcript, then the first phrase, then
the first sounding sample. What lies off that path is blamed for nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pipeline.events import TurnView
from pipeline.timeline import Budget, Mark, Spans

NEAR_S = 0.04  # an endpoint this soon after a witness was waiting for it: a VAD window and a frame
QUEUED_SHARE = 0.5  # of the overrun an inbox must explain
LATE_SLOTS = 2  # outbound slots that came late while the reply was made: the cores were somebody else's
LLM_USUAL_S = 0.25  # transcript to first phrase on two cores when nothing is wrong
TTS_USUAL_S = 0.15  # first phrase to first audio, likewise


class Reason(StrEnum):
    """Why, in one word of a closed list; pipeline/ui/remedies.py says what to do about each."""

    COLD = "cold"  # the session was still getting ready
    SLOW_ENDPOINT = "slow-endpoint"  # the wait itself: P(finished) was low, or the floor is above the budget
    WITNESS_LATE = "witness-late"  # the turn model or the words' weight came after the floor
    ASR_SLOW = "asr-slow"
    CACHE_MISS = "cache-miss"  # no opener: the first words had to be made
    DRAFT_DROPPED = "draft-dropped"  # and none took its place in time
    LLM_SLOW = "llm-slow"
    TTS_SLOW = "tts-slow"
    QUEUE_WAIT = "queue-wait"  # its work lay in an inbox
    CPU_STOLEN = "cpu-stolen"  # the media loop itself came late


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that decide what should have happened."""

    floor_ms: float  # endpoint_floor_ms
    openers: bool = True


@dataclass(frozen=True, slots=True)
class Blame:
    stage: str  # "listen", "think" or "speak"
    reason: Reason
    over_ms: float  # of the whole turn, above the budget


def blame(turn: TurnView, spans: Spans | None, budget: Budget, rules: Rules) -> Blame | None:
    """None for a turn inside the budget, or one that was never answered.

    `spans` may count from the true end of speech (a bench knows it) instead of the turn's own SPEECH_END.
    """
    if spans is None or spans.total <= budget.total:
        return None
    over = {s: getattr(spans, s) - getattr(budget, s) for s in ("listen", "think", "speak")}
    stage = max(over, key=lambda s: over[s])
    reason = {"listen": _listen, "think": _think, "speak": _speak}[stage](turn, spans, rules)
    if reason in (Reason.SLOW_ENDPOINT, Reason.CACHE_MISS, Reason.DRAFT_DROPPED):
        return Blame(stage, reason, spans.total - budget.total)  # by design, however fast the machine
    if turn.cold:
        reason = Reason.COLD
    elif turn.queued_ms >= QUEUED_SHARE * over[stage]:
        reason = Reason.QUEUE_WAIT
    elif turn.late_slots >= LATE_SLOTS:
        reason = Reason.CPU_STOLEN
    return Blame(stage, reason, spans.total - budget.total)


def _listen(turn: TurnView, spans: Spans, rules: Rules) -> Reason:
    marks = turn.timeline.marks
    endpoint, transcript = marks[Mark.ENDPOINT], marks[Mark.TRANSCRIPT]
    if transcript > endpoint:
        return Reason.ASR_SLOW
    floor_over = marks.get(Mark.SPEECH_END, marks[Mark.RELEASED] - spans.total / 1e3) + rules.floor_ms / 1e3
    witnesses = [marks[m] for m in (Mark.JUDGED, Mark.WEIGHED) if m in marks and marks[m] <= endpoint]
    last = max(witnesses, default=0.0)
    awaited = last > floor_over and endpoint - last <= NEAR_S
    missing = Mark.WEIGHED in marks and marks[Mark.WEIGHED] > endpoint and endpoint > floor_over
    return Reason.WITNESS_LATE if awaited or missing else Reason.SLOW_ENDPOINT


def _think(turn: TurnView, _spans: Spans, rules: Rules) -> Reason:
    if turn.drafts_dropped and not turn.drafted:
        return Reason.DRAFT_DROPPED
    marks = turn.timeline.marks
    took = marks[Mark.FIRST_PHRASE] - marks[Mark.TRANSCRIPT]
    return Reason.CACHE_MISS if rules.openers and not turn.cached and took <= LLM_USUAL_S else Reason.LLM_SLOW


def _speak(turn: TurnView, _spans: Spans, rules: Rules) -> Reason:
    marks = turn.timeline.marks
    took = marks.get(Mark.FIRST_AUDIO, marks[Mark.RELEASED]) - marks[Mark.FIRST_PHRASE]
    return Reason.CACHE_MISS if rules.openers and not turn.cached and took <= TTS_USUAL_S else Reason.TTS_SLOW


def ranking(found: Iterable[Blame | None]) -> dict[Reason, int]:
    """How many turns each reason cost, the worst first; reasons that cost none are left out."""
    return dict(Counter(b.reason for b in found if b is not None).most_common())
