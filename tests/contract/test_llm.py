"""Language models: an answer or a coded error to any question, within the limits, and only to who asked."""

from __future__ import annotations

import pytest

from pipeline.engines.registry import Kind, Row
from pipeline.errors import Code, EngineError
from pipeline.ports import Llm, Message, ReplyLimits, Role, never
from tests.contract.ground import ODD_QUESTIONS, VISITORS, at_once, close, engine, of, tiny

ASK = [Message(Role.SYSTEM, "You answer in one short sentence."), Message(Role.USER, "What colour is the sky?")]
STORY = [Message(Role.USER, "Tell me a long story about a ship, with every detail.")]
ANIMALS = (
    "cat dog horse bird fish snake lion mouse tiger bear wolf sheep goat duck goose frog whale shark eagle rabbit"
).split()


@pytest.mark.parametrize("known", of(Kind.LLM))
def test_llm_answers_in_text(known: Row) -> None:
    llm: Llm = engine(Kind.LLM, known.name)
    llm.warm(ASK[:1])
    deltas = list(llm.reply(ASK, never, ReplyLimits(max_tokens=12)))
    assert all(isinstance(d, str) for d in deltas)
    assert "".join(deltas).strip()
    if not known.scripted:
        assert len("".join(deltas).split()) <= 12


@pytest.mark.parametrize("known", of(Kind.LLM))
@pytest.mark.parametrize("text", ODD_QUESTIONS.values(), ids=ODD_QUESTIONS.keys())
def test_llm_meets_any_question(known: Row, text: str) -> None:
    """An answer or a coded error; never another exception, never a hang."""
    llm: Llm = engine(Kind.LLM, known.name)
    deltas, code = list[str](), Code.LLM_EMPTY
    try:
        deltas = list(llm.reply([ASK[0], Message(Role.USER, text)], never, ReplyLimits(max_tokens=4)))
    except EngineError as error:
        code = error.code
    assert code.startswith("llm.")
    assert all(isinstance(d, str) for d in deltas)


@pytest.mark.parametrize("known", of(Kind.LLM))
def test_llm_cancelled_stops_and_answers_the_next(known: Row) -> None:
    llm: Llm = engine(Kind.LLM, known.name)
    heard: list[str] = []
    for delta in llm.reply(STORY, lambda: len(heard) >= 2, ReplyLimits(max_tokens=200)):
        heard.append(delta)
    assert len(heard) <= 12, "a few pieces may already be on their way"
    assert list(llm.reply(ASK, lambda: True, ReplyLimits())) == []
    assert "".join(llm.reply(ASK, never, ReplyLimits(max_tokens=8)))


@pytest.mark.parametrize("known", of(Kind.LLM))
def test_llm_closed_half_way_answers_the_next(known: Row) -> None:
    llm: Llm = engine(Kind.LLM, known.name)
    pieces = llm.reply(ASK, never, ReplyLimits(max_tokens=60))
    next(pieces)
    close(pieces)
    assert "".join(llm.reply(ASK, never, ReplyLimits(max_tokens=8)))


@pytest.mark.parametrize("known", of(Kind.LLM))
def test_llm_completeness_is_a_probability_or_unknown(known: Row) -> None:
    llm: Llm = engine(Kind.LLM, known.name)
    for said in ("", "I would like to", "What are your opening hours?", "\u8bf7\u95ee\u51e0\u70b9\u5f00\u95e8\uff1f"):
        whole = llm.completeness(ASK[:1], said)
        assert whole is None or 0.0 <= whole <= 1.0


@pytest.mark.parametrize("known", of(Kind.LLM))
def test_llm_visitors_do_not_touch_each_other(known: Row) -> None:
    llm: Llm = engine(Kind.LLM, known.name)

    def ask(visitor: int) -> str:
        request = [Message(Role.USER, f"Repeat this word and nothing else: {ANIMALS[visitor]}")]
        return "".join(llm.reply(request, never, ReplyLimits(max_tokens=8))).lower()

    replies = at_once(ask)
    if tiny(known):
        assert replies == [ask(v) for v in range(VISITORS)], "the same as when alone"
        assert len(set(replies)) > VISITORS // 2, "and not the same to everybody"
        return
    for visitor, reply in enumerate(replies):
        others = [w for w in ANIMALS if w != ANIMALS[visitor] and w in reply and w not in ask(visitor)]
        assert not others, f"visitor {visitor} was told {reply!r}"
