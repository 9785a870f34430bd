"""Canned replies: sentences of the scenario, spoken at warm-up.

Two are for a turn that has no reply to give; two are the whole reply to what needs no model: a farewell, and the wish
for a person to talk to.
"""

from __future__ import annotations

import re

from pipeline.errors import Code
from pipeline.scenario import CannedKind

APOLOGIES: tuple[CannedKind, ...] = ("did_not_hear", "sorry")  # what kind_for can name
REPLIES: tuple[CannedKind, ...] = ("handover", "goodbye")  # what asked_for can name
MUMBLE_S = 0.8  # a shorter sound without words is a cough or a door, and nobody expects an answer to it

# A farewell may hold thanks and little else: "thanks, and when do you close?" is a question.
_FAREWELL = re.compile(
    r"^(?:(?:ok(?:ay)?|great|no|thanks?|thank you|thank you very much|谢谢您?|谢谢你|好的?|嗯|没有了)[\s,.!，。！]*)*"
    r"(?:(?:good)?bye(?:[ -]bye)?|that(?: is|'s)? all(?: i needed)?|see you|再见|拜拜|没有?别的问题了|就这些了?)"
    r"(?:[\s,.!，。！]*(?:thanks?|thank you|(?:good)?bye|now|谢谢您?|再见|拜拜))*[\s,.!，。！]*$",
    re.IGNORECASE,
)
_PERSON = re.compile(
    r"\b(?:speak|talk)\b.{0,12}\b(?:manager|supervisor|person|human|someone|somebody|representative|colleague)\b"
    r"|\b(?:a real|a human) (?:person|being|agent)\b|(?:找|转|要).{0,3}(?:人工|经理|主管|真人)",
    re.IGNORECASE,
)


def kind_for(code: Code, sounded_s: float) -> CannedKind | None:
    """What to say aloud of a turn that failed with `code` after `sounded_s` seconds of sound; None for nothing."""
    if code is not Code.NOTHING_HEARD:
        return "sorry"
    return "did_not_hear" if sounded_s >= MUMBLE_S else None


def asked_for(said: str) -> CannedKind | None:
    """The canned reply that is the whole answer to `said`; None where the model has to think of one."""
    if _PERSON.search(said):
        return "handover"
    return "goodbye" if _FAREWELL.match(said.strip()) else None
