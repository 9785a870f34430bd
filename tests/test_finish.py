"""P(finished) out of sound and words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.finish import ends_in_number, finished, holds_floor, is_statement

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
        ("我的包裹坏了", True),
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
