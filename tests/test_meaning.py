"""When two transcripts ask for the same reply."""

import pytest

from pipeline.meaning import alike, turned


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Where is my order", "where is my order?"),
        ("Where is my order?", "Where is my order, um"),
        ("Where is my order?", "Where is my order, please."),
        ("Don’t you open?", "don't you open"),
        ("你们几点开门", "你们几点开门？"),
        ("你们几点开门", "你们几点开门呢，那个"),
        ("ＯＫ，退货", "ok退货"),
        ("um", ""),
    ],
)
def test_what_does_not_change_the_reply(a, b):
    assert alike(a, b)
    assert alike(b, a)


@pytest.mark.parametrize(
    ("a", "b"), [("Where is my", "Where is my order"), ("order four", "order five"), ("退鞋", "换鞋"), ("um yes", "no")]
)
def test_what_does(a, b):
    assert not alike(a, b)


@pytest.mark.parametrize(
    ("before", "after", "is_turned"),
    [
        ("Can I return this", "Can I return this without a receipt?", True),
        ("I want it", "I don't want it", True),
        ("我要退货", "我不要退货", True),
        ("I do not want it", "I do not want it today", False),
        ("What time do you", "What time do you close", False),
    ],
)
def test_words_that_turn_the_meaning_round(before, after, is_turned):
    assert turned(before, after) is is_turned
