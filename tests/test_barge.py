"""Interruptions, as the bench measures them."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.bench import barge
from pipeline.bench.callers import Caller
from pipeline.clock import ManualClock
from pipeline.loopback import Loopback

RATE = 48_000


def sound(*spans, seconds=4.0):
    pcm = np.zeros(round(seconds * RATE), np.int16)
    for start, end in spans:
        pcm[round(start * RATE) : round(end * RATE)] = 5000
    return pcm


@pytest.mark.parametrize(
    ("spans", "onset", "ms"),
    [
        ([(0.5, 1.08)], 1.0, 80),
        ([(0.5, 0.8), (0.95, 1.05), (1.2, 1.3), (2.5, 3.0)], 1.0, 300),  # a gap of 150 ms is within the reply
        ([(0.5, 0.6)], 1.0, None),  # over before the voice came
        ([], 1.0, None),
        ([(0.5, 0.99)], 1.0, 0),
        ([(0.5, 4.0)], 1.0, 3000),  # never silenced
    ],
)
def test_silence_is_counted_to_the_last_sound(spans, onset, ms):
    assert barge.silence_ms(sound(*spans), RATE, onset, 104) == (None if ms is None else pytest.approx(ms, abs=0.1))


def caller(name, seconds):
    return Caller(Path(name), "text", 0.3 + seconds, speech_start_s=0.3)


def test_everyone_is_interrupted_by_the_next_who_speaks_long_enough():
    a, yes, b = caller("a", 2.0), caller("yes", 0.4), caller("b", 2.0)
    assert [(x.file, y.file) for x, y in barge.pairs([a, yes, b])] == [("a", "b"), ("yes", "b"), ("b", "a")]
    assert barge.pairs([yes]) == []


def test_the_report_counts_what_could_not_be_interrupted():
    found = [barge.Interruption("a", "b", m, ms) for m, ms in (("soon", 40.0), ("soon", 60.0), ("later", None))]
    report = barge.report(found)
    assert report["soon"]["silence_ms"]["p50"] == 50
    assert report["later"] == {"silence_ms": None, "nothing_to_interrupt": 1}
    assert "2 measured" in barge.table(found)


class Still:
    """A line that plays nothing and remembers what it heard."""

    def __init__(self):
        self.clock = ManualClock()
        self.heard = []

    def hear(self, chunk):
        self.heard.append((chunk.at, chunk.samples))

    def pull(self, n):
        return np.zeros(n, np.int16)

    def slot(self, late_s):
        pass


def test_an_interjection_arrives_when_it_says():
    session = Still()
    line = Loopback(session, np.zeros(1600, np.float32), tail_s=1.0)
    arrives = line.interject(np.full(320, 0.5, np.float32))
    line.start()
    while not line.done:
        session.clock.advance(0.01)
        line.join(0.001)
    loud = [at for at, samples in session.heard if np.abs(samples).max() > 0.4]
    assert len(loud) == 2
    # A chunk is handed over when its last sample has arrived.
    assert loud[0] - line.started_at == pytest.approx(arrives + 0.01, abs=0.011)
