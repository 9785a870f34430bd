"""Judging whether a reply holds a fact."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pipeline.clock import ManualClock
from pipeline.facts import holds
from pipeline.ports import Cancel, Message, ReplyLimits
from pipeline.replies import Question, ask, questions, summary
from pipeline.scenario import load


@pytest.mark.parametrize(
    ("fact", "reply"),
    [
        ("nine to six", "We are open nine to six, Monday to Saturday."),
        ("nine to six", "We're open from 9 AM to 6 PM."),
        ("nine to six", "Open 9-6 on Saturday."),
        ("nine to six", "9:00 a.m. – 6:00 p.m."),
        ("thirty days", "within 30 days of purchase"),
        ("fifty", "Free above $50."),
        ("three to five", "It takes three-to-five days."),
        ("three to five", "3 to 5 days"),
        ("Saturday", "monday to SATURDAY"),
        ("twenty five", "That is 25 dollars."),
        ("twelve thousand", "12 thousand"),
        ("周六", "我们周六也开门。"),
    ],
)
def test_held(fact: str, reply: str) -> None:
    assert holds(fact, reply)


@pytest.mark.parametrize(
    ("fact", "reply"),
    [
        ("nine to six", "We are open nine to five."),
        ("nine to six", "We open at nine and six people work here."),
        ("thirty days", "within thirteen days"),
        ("thirty days", "within thirty-one days"),
        ("fifty", "Free above $500."),
        ("fifty", "fifty five dollars"),
        ("Saturday", "Sunday"),
        ("three to five", ""),
        ("", "anything"),
    ],
)
def test_not_held(fact: str, reply: str) -> None:
    assert not holds(fact, reply)


class Slow:
    """A language model that takes 50 ms for the first piece and 10 ms for each further one."""

    name = "slow"

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.warmed: list[Sequence[Message]] = []

    def warm_up(self) -> None: ...

    def warm(self, prefix: Sequence[Message]) -> None:
        self.warmed.append(prefix)
        self._clock.advance(9.0)

    def completeness(self, opening: Sequence[Message], said: str) -> float | None:
        return None

    def reply(self, messages: Sequence[Message], cancel: Cancel, limits: ReplyLimits) -> Iterator[str]:
        for wait, piece in ((0.05, "Nine "), (0.01, "to "), (0.01, "six.")):
            self._clock.advance(wait)
            yield piece


def test_a_reply_is_timed_after_warming_and_judged() -> None:
    clock = ManualClock()
    answer = ask(Slow(clock), load("shop-en"), Question("When?", "nine to six"), clock, ReplyLimits())
    assert (answer.reply, answer.held, answer.deltas) == ("Nine to six.", True, 3)
    assert answer.first_token_ms == pytest.approx(50.0)
    assert answer.total_ms == pytest.approx(70.0)
    figures = summary([answer])
    assert (figures["facts_held"], figures["facts_expected"]) == (1, 1)
    assert figures["tokens_per_s"] == pytest.approx(100.0)


def test_questions_of_one_language(tmp_path: Path) -> None:
    clips = [{"lang": "en", "text": "Hi", "fact": "x"}, {"lang": "zh", "text": "你好"}, {"lang": "en", "text": "Bye"}]
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"clips": clips}), encoding="utf-8")
    assert questions(manifest, "en") == [Question("Hi", "x"), Question("Bye", "")]
