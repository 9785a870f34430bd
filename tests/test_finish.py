"""P(finished) out of sound and words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.digits import Expected, missing
from pipeline.finish import ends_in_number, finished, holds_floor, is_statement, is_torn

p = st.floats(0, 1)


def test_one_witness_is_better_than_none():
    assert finished(None, None, "") is None
    assert finished(0.9, None, "Fine") == 0.9
    assert finished(None, 0.5, "Fine") is not None
    assert finished(0.99, None, "Fine", more_to_come=True) < 0.9


@given(p, p, p)
def test_more_evidence_never_counts_against(sound, text, other):
    low, high = sorted((text, other))
    assert finished(sound, low, "yes") <= finished(sound, high, "yes")
    assert finished(low, sound, "yes") <= finished(high, sound, "yes")
    assert 0 <= finished(sound, text, "yes") <= 1


def test_torn_words_outweigh_a_confident_sound():
    assert finished(0.97, 0.001, "I would like to return") < 0.5
    assert finished(0.97, 0.3, "I would like to return a pair of shoes") > 0.85


@pytest.mark.parametrize("said", ["Can I pay with, um,", "Well,", "and", "我想问一下那个", "那个"])
def test_fillers_hold_the_floor(said):
    assert holds_floor(said)
    assert finished(0.99, 0.9, said) < 0.6


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("The jacket is fine.", True),
        ("It is for my mother.", True),
        ("我的包裹是上周买的", True),
        ("The blue.", False),
        ("Where is my order?", False),
        ("I would like to return it.", False),
        ("你们几点开门？", False),
        ("Thanks, that is all I needed.", False),
        ("", False),
    ],
)
def test_statements_are_told_from_questions_and_requests(said, told):
    assert is_statement(said) is told


@pytest.mark.parametrize("said", ["Hello.", "Good morning,", "您好", "喂"])
def test_a_greeting_alone_waits_for_the_matter(said):
    assert finished(0.99, 0.9, said) == 0.0


@pytest.mark.parametrize("said", ["", "Yes.", "谢谢", "umbrella"])
def test_other_words_do_not(said):
    assert not holds_floor(said)


def test_numbers_leave_a_doubt():
    assert [ends_in_number(t) for t in ("four five", "order 45", "我的订单号是四五", "forty cents", "")] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert finished(0.9, 0.3, "four five") < finished(0.9, 0.3, "a hat")


def test_a_short_answer_is_whole_whatever_could_follow():
    assert finished(0.6, 0.18, "Yes,") > 0.85
    assert finished(0.6, 0.18, "Yes, and") < 0.3


ORDER = (Expected(("order number", "订单号"), 5),)


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("Where is my order?", None),
        ("My order number is", 5),
        ("My order number is four, five, seven.", 2),
        ("My order number is four, five, seven, two, one.", 0),
        ("my order number is 457 21", 0),
        ("My order number is forty five, double seven, one", 0),
        ("no, my order number is one two, I mean my order number is nine", 4),
        ("我的订单号是四五七", 2),
        ("我的订单号是四五七二一", 0),
        ("我的订单号是45721。", 0),
    ],
)
def test_digits_still_to_come(said, left):
    assert missing(said, ORDER) == left


def test_a_number_of_known_length_is_waited_for_and_no_longer():
    assert finished(0.99, 0.99, "My order number is four, five, seven.", expected=ORDER) == 0.0
    assert finished(0.02, 0.1, "My order number is four, five, seven, two, one.", expected=ORDER) > 0.9


def test_who_reports_a_trouble_asks():
    assert not is_statement("The jacket is fine, but the zip is broken.")
    assert not is_statement("我的包裹坏了。")
    assert is_statement("The jacket is fine.")


@pytest.mark.parametrize(
    ("said", "torn"),
    [
        ("Can I pay with?", True),
        ("I would like to return the", True),
        ("请把", True),
        ("我想跟", True),
        ("What can I pay with?", False),
        ("Who is it for?", False),
        ("Can I pay with a gift card?", False),
        ("Can I come in?", False),
        ("To", False),
        ("", False),
    ],
)
def test_a_preposition_without_its_noun_is_torn(said, torn):
    assert is_torn(said) is torn


def test_a_turn_models_no_delays_an_end_but_does_not_forbid_it():
    """A quiet caller's whole question, which the sound takes for unfinished (0.06); a torn one is held all the same."""
    question = "Do you ship to Canada?"
    assert 0.75 < finished(0.06, 0.54, question) < finished(0.97, 0.54, question)
    assert finished(0.06, 0.33, "Can I pay with?") < 0.3
