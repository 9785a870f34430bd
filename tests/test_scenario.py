"""Scenarios: what the files must hold, what the prompt is made of, and which fact travels with a question."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import Code, TurnaroundError
from pipeline.ports import Message, Role
from pipeline.recall import Recall, terms
from pipeline.scenario import LONGEST_QUESTION, Scenario, load, names

GOOD = """
language = "en"
title = "Test Desk"
persona = "You are a test."
greeting = "Hello."
fallback = "A colleague will call you back."
[canned]
did_not_hear = "Pardon?"
handover = "One moment."
goodbye = "Bye."
sorry = "Sorry."
[[facts]]
text = "Tea costs two dollars."
keywords = ["tea", "price"]
[[examples]]
question = "Is it open?"
fact = "It is open."
answer = "It is open."
"""

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_one(text: str) -> Path:
        (tmp_path / "desk.toml").write_text(text, encoding="utf-8")
        return tmp_path

    return write_one


def said(*texts: str) -> list[Message]:
    """A history: the caller, the agent, the caller, ..."""
    return [Message(Role.USER if i % 2 == 0 else Role.ASSISTANT, text) for i, text in enumerate(texts)]


# -- files


def test_the_promised_scenarios_are_there_and_sound() -> None:
    assert set(names()) >= {f"{place}-{lang}" for place in ("shop", "clinic", "bank") for lang in ("en", "zh")}
    for name in names():
        scenario = load(name)
        assert scenario.name == name
        assert name.endswith(scenario.language)
        assert len(scenario.examples) >= 2
        assert all(fact.keywords for fact in scenario.facts)


def test_an_unknown_scenario_names_the_known_ones() -> None:
    with pytest.raises(TurnaroundError, match="shop-en") as caught:
        load("../secrets")
    assert caught.value.code is Code.UNKNOWN_SCENARIO


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        (GOOD.replace('title = "Test Desk"', ""), "title"),
        (GOOD.replace('language = "en"', 'language = "fr"'), "language"),
        (GOOD.replace('text = "Tea costs two dollars."', 'text = "  "'), r"facts\[1\].text"),
        (GOOD.replace('goodbye = "Bye."', ""), r"canned.goodbye"),
        (GOOD.replace('keywords = ["tea"', 'keyword = ["tea"'), r"facts\[1\].keyword"),
        (GOOD.replace("[canned]", "[canned"), "desk.toml"),
    ],
)
def test_a_broken_scenario_says_where(write: Write, broken: str, named: str) -> None:
    with pytest.raises(TurnaroundError, match=named) as caught:
        load("desk", write(broken))
    assert caught.value.code is Code.BAD_SCENARIO
    assert "desk.toml" in caught.value.remedy


def test_a_mended_scenario_is_read_again(write: Write) -> None:
    import os

    folder = write(GOOD)
    assert load("desk", folder).title == "Test Desk"
    write(GOOD.replace("Test Desk", "Other Desk"))
    os.utime(folder / "desk.toml", ns=(1, 1))  # two writes within one tick of the disk's clock look alike
    assert load("desk", folder).title == "Other Desk"


# -- the prompt


@pytest.fixture
def desk(write: Write) -> Scenario:
    return load("desk", write(GOOD))


def test_every_turn_begins_with_the_same_prefix(desk: Scenario) -> None:
    prefix = desk.prefix()
    assert [m.role for m in prefix] == [Role.SYSTEM, Role.USER, Role.ASSISTANT]
    for history in ([], said("Tea?", "Two dollars."), said("Tea?", "Two dollars.", "And coffee?", "No.")):
        assert desk.messages(history, "Anything")[: len(prefix)] == prefix


def test_the_fact_travels_with_the_question(desk: Scenario) -> None:
    last = desk.messages([], "How much is a tea?")[-1]
    assert last.role is Role.USER
    assert last.text.startswith("How much is a tea?"), "what is still being said must be the beginning of the prompt"
    assert "Tea costs two dollars." in last.text


def test_without_a_fact_the_fallback_travels(desk: Scenario) -> None:
    assert desk.fact_for("Who won the game?") == ""
    assert desk.fallback in desk.messages([], "Who won the game?")[-1].text


def test_only_the_last_exchange_is_kept(desk: Scenario) -> None:
    history = said("one", "1", "two", "2", "three", "3")
    opening = desk.opening(history)
    assert [m.text.split("\n")[0] for m in opening[len(desk.prefix()) :]] == ["three", "3"]
    assert desk.messages(history, "four")[:-1] == opening


def test_a_turn_is_the_beginning_of_the_next(desk: Scenario) -> None:
    """What the engine computed for a turn must be reused by the next one, so it has to be the same text."""
    first = desk.messages([], "How much is a tea?")
    then = desk.messages(said("How much is a tea?", "Two dollars."), "Thanks")
    assert then[: len(first)] == first


def test_roles_alternate_whatever_the_history_is_cut_to(desk: Scenario) -> None:
    for count in range(7):
        roles = [m.role for m in desk.messages(said(*"abcdefg"[:count]), "next")][1:]
        if count % 2 == 0:
            assert roles == [Role.USER, Role.ASSISTANT] * (len(roles) // 2) + [Role.USER]
        assert roles[0] is Role.USER


def test_a_monologue_keeps_its_end(desk: Scenario) -> None:
    last = desk.messages([], "blah " * 1000 + "how much is tea?")[-1].text
    assert "how much is tea?" in last
    assert len(last) < LONGEST_QUESTION + 100


def test_canned_replies_by_kind(desk: Scenario) -> None:
    assert [desk.reply(k) for k in ("did_not_hear", "handover", "goodbye", "sorry")] == [
        "Pardon?",
        "One moment.",
        "Bye.",
        "Sorry.",
    ]


# -- recall


@pytest.mark.parametrize(
    ("name", "question", "fact"),
    [
        ("shop-en", "Until when can I send these trousers back?", "thirty days"),
        ("shop-en", "hello do you open on sundays", "not on Sunday"),
        ("shop-en", "What are your opening hours?", "nine to six"),
        ("shop-en", "How many days does a delivery take?", "three to five"),
        ("shop-en", "Is the delivery free?", "fifty dollars"),
        ("shop-en", "The sole of my shoe is torn", "replace it"),
        ("shop-en", "Can't I log in any more?", "sign-in page"),
        ("shop-en", "No thanks, that's all.", "welcome"),
        ("clinic-en", "I have a terrible chest pain", "emergency number"),
        ("clinic-en", "Can I get an appointment tomorrow?", "Thursday"),
        ("clinic-en", "Are my blood test results back?", "three days"),
        ("bank-en", "Somebody has stolen my card", "block the card"),
        ("bank-en", "How high is the interest?", "two percent"),
        ("shop-zh", "你们周六几点开门？", "九点到六点"),
        ("shop-zh", "我想退货，就是上周买的那双鞋。", "三十天"),
        ("shop-zh", "请问你们周日开门吗？", "周日休息"),
        ("shop-zh", "寄过来要几天？", "三到五天"),
        ("clinic-zh", "我想挂个号", "周四"),
        ("bank-zh", "我的银行卡丢了", "冻结"),
    ],
)
def test_the_fact_that_fits(name: str, question: str, fact: str) -> None:
    assert fact in load(name).fact_for(question)


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("shop-en", "What is the weather like today?"),
        ("shop-en", "Do you sell umbrellas?"),
        ("shop-en", ""),
        ("shop-zh", "今天天气怎么样？"),
    ],
)
def test_no_fact_fits(name: str, question: str) -> None:
    assert load(name).fact_for(question) == ""


def test_terms_of_english_and_chinese() -> None:
    assert terms("Do you SHIP to Canada?") == ["ship", "canada", "ship canada"]
    assert terms("退货吗") == ["退", "货", "退货"]
    assert terms("退货", keyword=True) == ["退货"]
    assert terms("退", keyword=True) == ["退"]


def test_recall_of_nothing() -> None:
    assert Recall([], []).best("anything") == []
    assert Recall(["tea"], [()]).best("the of and") == []


@given(st.text(max_size=200))
def test_any_question_makes_a_prompt(question: str) -> None:
    scenario = load("shop-en")
    assert scenario.messages([], question)[:-1] == scenario.prefix()
