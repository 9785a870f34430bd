"""Canned replies: sentences of the scenario, spoken at warm-up, for a turn that has no reply to give."""

from __future__ import annotations

from pipeline.errors import Code
from pipeline.scenario import CannedKind

SPOKEN: tuple[CannedKind, ...] = ("did_not_hear", "sorry")  # what kind_for can name
MUMBLE_S = 0.8  # a shorter sound without words is a cough or a door, and nobody expects an answer to it


def kind_for(code: Code, sounded_s: float) -> CannedKind | None:
    """What to say aloud of a turn that failed with `code` after `sounded_s` seconds of sound; None for nothing."""
    if code is not Code.NOTHING_HEARD:
        return "sorry"
    return "did_not_hear" if sounded_s >= MUMBLE_S else None
