"""Blame: the stage that overran most and the reason that its marks show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.blame import Blame, Reason, Rules, blame, ranking
from pipeline.events import TurnView
from pipeline.ledger import Ledger
from pipeline.timeline import Budget, Mark, Timeline
from pipeline.turn import Tag
from tests.fakes import turn

RULES = Rules(floor_ms=100)


def made(at: dict[Mark, float], **changes: Any) -> TurnView:
    """A turn with these marks, milliseconds after the end of speech."""
    line = Timeline().stamped(Mark.SPEECH_END, 10.0)
    for mark, ms in at.items():
        line = line.stamped(mark, 10.0 + ms / 1e3)
    return replace(turn(1), timeline=line, spans=line.spans(), **changes)


def marks(
    endpoint: float = 80.0, transcript: float = 60.0, phrase: float = 70.0, audio: float = 75.0, released: float = 85.0,
    **more: float,
) -> dict[Mark, float]:  # fmt: skip
    at = {
        Mark.ENDPOINT: endpoint, Mark.TRANSCRIPT: transcript, Mark.FIRST_PHRASE: phrase, Mark.FIRST_AUDIO: audio,
        Mark.RELEASED: released,
    }  # fmt: skip
    return at | {Mark(name): ms for name, ms in more.items()}


def why(view: TurnView, rules: Rules = RULES) -> tuple[str, Reason] | None:
    found = blame(view, view.spans, Budget(), rules)
    return None if found is None else (found.stage, found.reason)


SLOW_WAIT = marks(endpoint=600, judged=50, weighed=90, released=610)
LATE_WORDS = marks(endpoint=420, judged=50, weighed=400, released=425)
SLOW_WORDS = marks(endpoint=100, transcript=500, phrase=501, audio=502, released=510)
SLOW_MODEL = marks(endpoint=60, transcript=50, phrase=800, audio=805, released=810)
NO_OPENER = marks(endpoint=60, transcript=50, phrase=240, audio=245, released=250)
SLOW_VOICE = marks(endpoint=60, transcript=50, phrase=55, audio=700, released=705)
VOICE_MADE = marks(endpoint=60, transcript=50, phrase=70, audio=180, released=190)


@pytest.mark.parametrize(
    ("at", "changes", "expected"),
    [
        (marks(), {}, None),
        (SLOW_WAIT, {}, ("listen", Reason.SLOW_ENDPOINT)),
        (LATE_WORDS, {}, ("listen", Reason.WITNESS_LATE)),
        (marks(endpoint=420, judged=410, weighed=90, released=425), {}, ("listen", Reason.WITNESS_LATE)),
        (marks(endpoint=420, weighed=500, released=425), {}, ("listen", Reason.WITNESS_LATE)),
        (marks(endpoint=420, released=425), {}, ("listen", Reason.SLOW_ENDPOINT)),
        (SLOW_WORDS, {}, ("listen", Reason.ASR_SLOW)),
        (SLOW_WORDS, {"queued_ms": 300.0}, ("listen", Reason.QUEUE_WAIT)),
        (SLOW_WORDS, {"queued_ms": 30.0, "late_slots": 5}, ("listen", Reason.CPU_STOLEN)),
        (SLOW_WORDS, {"queued_ms": 300.0, "cold": True}, ("listen", Reason.COLD)),
        (SLOW_MODEL, {}, ("think", Reason.LLM_SLOW)),
        (SLOW_MODEL, {"drafted": False, "drafts_dropped": 1}, ("think", Reason.DRAFT_DROPPED)),
        (SLOW_MODEL, {"drafted": True, "drafts_dropped": 1}, ("think", Reason.LLM_SLOW)),
        (NO_OPENER, {}, ("think", Reason.CACHE_MISS)),
        (NO_OPENER, {"cached": True}, ("think", Reason.LLM_SLOW)),
        (SLOW_VOICE, {}, ("speak", Reason.TTS_SLOW)),
        (SLOW_VOICE, {"late_slots": 5}, ("speak", Reason.CPU_STOLEN)),
        (VOICE_MADE, {}, ("speak", Reason.CACHE_MISS)),
        # What is by design is not the machine's fault, whatever else was wrong with the machine.
        (SLOW_WAIT, {"late_slots": 5, "queued_ms": 900.0, "cold": True}, ("listen", Reason.SLOW_ENDPOINT)),
    ],
)
def test_each_turn_over_budget_has_the_reason_its_marks_show(
    at: dict[Mark, float], changes: dict[str, Any], expected: tuple[str, Reason] | None
) -> None:
    assert why(made(at, **changes)) == expected


def test_without_openers_no_cache_is_missed() -> None:
    assert why(made(NO_OPENER), Rules(100, openers=False)) == ("think", Reason.LLM_SLOW)
    assert why(made(VOICE_MADE), Rules(100, openers=False)) == ("speak", Reason.TTS_SLOW)


def test_a_witness_before_the_floor_is_not_late() -> None:
    view = made(LATE_WORDS)
    assert why(view, Rules(floor_ms=450)) == ("listen", Reason.SLOW_ENDPOINT)


def test_a_turn_without_a_reply_is_blamed_for_nothing() -> None:
    assert blame(turn(1, None), None, Budget(), RULES) is None


ms = st.floats(-50, 5000)


@given(ms, ms, ms, ms, ms, st.none() | ms, st.none() | ms, st.booleans(), st.booleans(), st.booleans())
def test_whatever_the_marks_a_turn_over_budget_has_one_blame(
    endpoint: float, transcript: float, phrase: float, audio: float, released: float,
    judged: float | None, weighed: float | None, drafted: bool, cached: bool, openers: bool,
) -> None:  # fmt: skip
    more = {k: v for k, v in (("judged", judged), ("weighed", weighed)) if v is not None}
    view = made(marks(endpoint, transcript, phrase, audio, released, **more), drafted=drafted, cached=cached)
    assert view.spans is not None
    found = blame(view, view.spans, Budget(), Rules(100, openers))
    assert (found is None) == (view.spans.total <= Budget().total)
    if found is not None:
        assert found.over_ms > 0
        assert found.stage in ("listen", "think", "speak")


def test_reasons_are_ranked_by_the_turns_they_cost() -> None:
    slow, cold = Blame("listen", Reason.SLOW_ENDPOINT, 50.0), Blame("think", Reason.COLD, 10.0)
    assert list(ranking([cold, slow, None, slow]).items()) == [(Reason.SLOW_ENDPOINT, 2), (Reason.COLD, 1)]
    assert ranking([None]) == {}


def test_work_of_a_dropped_draft_that_ends_late_is_wasted_too() -> None:
    ledger = Ledger()
    ledger.dropped(Tag(1, 0), tokens=5, busy_s=0.1)
    assert ledger.late(Tag(1, 0), 0.2)
    assert not ledger.late(Tag(1, 1), 9.0)
    assert (ledger.drafts_dropped, ledger.wasted_tokens) == (1, 5)
    assert ledger.wasted_s == pytest.approx(0.3)
