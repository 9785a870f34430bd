"""Capture buffers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ring import Capture, Ring


@given(st.lists(st.integers(1, 3000), max_size=40))
def test_the_ring_holds_the_last_samples(sizes):
    ring, all_of_it = Ring(0.1), np.zeros(0, np.float32)
    for size in sizes:
        samples = np.arange(len(all_of_it), len(all_of_it) + size, dtype=np.float32)
        ring.write(samples)
        all_of_it = np.concatenate((all_of_it, samples))
    assert ring.written == len(all_of_it)
    assert (ring.since(0) == all_of_it[-1600:]).all()
    assert (ring.since(ring.written - 100) == all_of_it[-100:]).all()


def test_capture_stops_at_its_size():
    capture = Capture(0.01)
    capture.append(np.ones(100, np.float32))
    capture.append(np.full(100, 2, np.float32))
    assert capture.length == 160
    assert capture.between(90, 400).sum() == 10 + 60 * 2
