"""Threads that give way."""

import sys
import threading

import pytest

from pipeline.priority import made_by_a_nice_thread, niceness, step_back

linux = pytest.mark.skipif(sys.platform != "linux", reason="niceness by thread is Linux's")


@linux
def test_what_is_made_nicely_starts_nice_threads_and_the_caller_stays_as_it_was():
    before = niceness()

    def make():
        seen = []
        thread = threading.Thread(target=lambda: seen.append(niceness()))
        thread.start()
        thread.join()
        return seen[0]

    assert made_by_a_nice_thread(make, 5) == min(before + 5, 19)
    assert niceness() == before


def test_what_goes_wrong_reaches_the_caller():
    with pytest.raises(ValueError, match="boom"):
        made_by_a_nice_thread(lambda: int("boom"), 3)


def test_no_step_back_is_none():
    before = niceness()
    step_back(0)
    assert niceness() == before
