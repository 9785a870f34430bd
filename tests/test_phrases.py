"""The splitter: nothing lost, nothing cut where it must not be."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.phrases import Splitter, sentence_count, speakable, word_count


def split(text, piece=1, first_words=4):
    splitter, out = Splitter(first_words), []
    for start in range(0, len(text), piece):
        out += splitter.feed(text[start : start + piece])
    return out + splitter.flush()


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("We are open nine to six, Monday to Saturday.", ["We are open nine", "to six, Monday to Saturday."]),
        ("Yes. I can help.", ["Yes.", "I can help."]),
        ("No. Sorry.", ["No.", "Sorry."]),
        ("Sure, it is $1.23, not $12,345.67.", ["Sure,", "it is $1.23, not $12,345.67."]),
        ("Ask Dr. Wu at 9 a.m. today.", ["Ask Dr. Wu at 9 a.m. today."]),
        ("Mail help@acme.com. Thanks!", ["Mail help@acme.com.", "Thanks!"]),
        ("Wait... what?! Yes.", ["Wait...", "what?!", "Yes."]),
        ('He said "yes." Then left.', ['He said "yes."', "Then left."]),
        ("好的，我们九点开门。还有问题吗？", ["好的，", "我们九点开门。", "还有问题吗？"]),
        ("价格是12,345.67元，运费1.5元。", ["价格是12,345.67元，", "运费1.5元。"]),
        ("您好！我可以帮您。", ["您好！", "我可以帮您。"]),
        ("The jacket comes in the blue colour", ["The jacket comes in the blue", "colour"]),
        ("", []),
        ("   ", []),
        ("Hello", ["Hello"]),
    ],
)
def test_phrases(text, phrases):
    assert split(text) == phrases


@given(st.text(max_size=200), st.integers(1, 20), st.integers(2, 10))
def test_the_phrases_are_the_text(text, piece, words):
    together = "".join(split(text, piece, words))
    assert re.sub(r"\s", "", together) == re.sub(r"\s", "", text)


@given(st.lists(st.sampled_from(["1.23", "12,345", "help@acme.com", "Dr. Wu", "9 a.m.", "yes", "no,"]), max_size=12))
def test_no_cut_inside_a_token(tokens):
    for phrase in split(" ".join([*tokens, "end."]), first_words=2):
        for token in ("1.23", "12,345", "help@acme.com"):
            head = token[: len(token) // 2 + 1]
            assert not phrase.endswith(head) or phrase.endswith(token)
        assert not phrase.endswith("Dr.")


@given(st.lists(st.sampled_from(["one two three four five six seven.", "Yes!", "好的。", "really?"]), min_size=1))
def test_how_it_is_fed_does_not_matter(sentences):
    text = " ".join(sentences)
    assert split(text, 1) == split(text, 5)


def test_the_first_phrase_comes_before_the_sentence_is_over():
    splitter = Splitter(4)
    assert splitter.feed("We are open nine to") == ["We are open nine"]


def test_counts():
    assert sentence_count("One. Two! 三。 1.5 no") == 3
    assert word_count("你好世界 hello") == 3
    assert [speakable(t) for t in ("", "...", "😀", "。", "a", "7", "好")] == [False] * 4 + [True] * 3


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("好。我们九点开门。", ["好。我们九点开门。"]),
        ("嗯，是的，我们九点开门。", ["嗯，是的，", "我们九点开门。"]),
        ("好的，我们九点开门。", ["好的，", "我们九点开门。"]),
        ("我们九点开门。好。", ["我们九点开门。", "好。"]),  # nothing follows: the voice is told, and does what it can
        ("好。", ["好。"]),
    ],
)
def test_a_phrase_too_short_for_the_voice_is_joined_with_the_next(text: str, phrases: list[str]) -> None:
    splitter = Splitter(4, shortest=3)
    assert [p for piece in text for p in splitter.feed(piece)] + splitter.flush() == phrases
