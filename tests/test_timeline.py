"""Latencies are computed once, as design defines them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.timeline import Budget, Mark, Percentiles, Timeline, share_within


def line(**marks):
    timeline = Timeline()
    for name, at in marks.items():
        timeline = timeline.stamped(Mark(name), at)
    return timeline


def test_spans_lie_end_to_end():
    spans = line(speech_end=1.0, endpoint=1.2, transcript=1.1, first_phrase=1.3, released=1.35).spans()
    assert spans.as_dict() == pytest.approx({"listen": 200, "think": 100, "speak": 50, "total": 350})


def test_what_a_draft_did_early_contributes_nothing():
    spans = line(speech_end=1.0, endpoint=1.2, transcript=1.05, first_phrase=1.15, released=1.21).spans()
    assert spans.think == 0
    assert spans.listen == pytest.approx(200)


def test_the_true_end_replaces_the_detected_one():
    spans = line(speech_end=1.05, endpoint=1.2, transcript=1.1, first_phrase=1.3, released=1.4).spans(speech_end=1.0)
    assert spans.total == pytest.approx(400)


@given(st.lists(st.floats(0, 5), min_size=5, max_size=5))
def test_spans_always_sum_to_the_total(offsets):
    end, endpoint, transcript, phrase, audio = (10 + o for o in offsets)
    released = max(endpoint, transcript, phrase) + abs(audio - 10)
    spans = line(
        speech_end=end, endpoint=endpoint, transcript=transcript, first_phrase=phrase, released=released
    ).spans()
    assert spans.listen + spans.think + spans.speak == pytest.approx(spans.total, abs=1e-6)
    assert spans.think >= 0
    assert spans.speak >= 0


def test_no_spans_before_the_reply_was_released():
    assert line(speech_end=1.0, endpoint=1.2, transcript=1.1).spans() is None


def test_the_first_stamp_stands_and_timelines_do_not_change():
    first = line(endpoint=1.0)
    assert first.stamped(Mark.ENDPOINT, 9.0).marks[Mark.ENDPOINT] == 1.0
    assert first.stamped(Mark.RELEASED, 2.0) is not first
    assert Mark.RELEASED not in first.marks
    assert first.restamped(Mark.ENDPOINT, 9.0).marks[Mark.ENDPOINT] == 9.0
    assert first.without(Mark.ENDPOINT).marks == {}


def test_percentiles_and_share():
    p = Percentiles.of([100, 200, 300])
    assert (p.p50, p.n) == (200, 3)
    assert Percentiles.of([]) is None
    assert share_within([100, 150, 151, 400], Budget()) == 0.5
    assert share_within([], Budget()) is None
