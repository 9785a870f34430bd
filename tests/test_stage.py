"""Stages: policies of a full inbox, closing of work, threads left behind."""

import threading
import time

from pipeline.clock import SystemClock
from pipeline.stage import Inbox, Stage, WhenFull


def wait_for(true):
    until = time.monotonic() + 5
    while not true():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_a_full_inbox_does_what_its_policy_says():
    clock = SystemClock()
    oldest, latest, refuse = (Inbox(clock, n, p) for n, p in zip((2, 1, 2), WhenFull, strict=True))
    assert [oldest.put(k) for k in range(4)] == [True] * 4
    assert [oldest.get(0), oldest.get(0), oldest.get(0)] == [2, 3, None]
    assert oldest.dropped == 2
    assert [latest.put(k) for k in range(3)] == [True] * 3
    assert latest.get(0) == 2
    assert [refuse.put(k) for k in range(3)] == [True, True, False]


def test_a_closed_inbox_takes_and_gives_nothing():
    inbox = Inbox(SystemClock(), 2, WhenFull.REFUSE)
    inbox.put(1)
    inbox.close()
    assert not inbox.put(2)
    assert inbox.get(None) is None


def make(work, deliver=lambda _: True, failed=lambda *_: None):
    return Stage("test", work, deliver, failed, SystemClock(), 4, WhenFull.REFUSE)


def test_refused_output_closes_the_work_and_its_finally_runs():
    released, got = [], []

    def work(item):
        try:
            yield from range(item)
        finally:
            released.append(item)

    stage = make(work, lambda out: got.append(out) or out < 2)
    stage.start()
    stage.post(10)
    wait_for(lambda: released == [10])
    assert got == [0, 1, 2]
    stage.close()
    assert stage.join(2)


def test_an_error_ends_the_item_not_the_stage():
    errors, got = [], []

    def work(item):
        yield 10 // item

    stage = make(work, lambda out: got.append(out) or True, lambda item, error: errors.append((item, type(error))))
    stage.start()
    stage.post(0)
    stage.post(5)
    wait_for(lambda: got == [2])
    assert errors == [(0, ZeroDivisionError)]
    stage.close()


def test_a_stuck_thread_is_left_behind_and_its_late_output_refused():
    gate, got = threading.Event(), []

    def work(item):
        if item == "stuck":
            gate.wait()
        yield item

    stage = make(work, lambda out: got.append(out) or True)
    stage.start()
    stage.post("stuck")
    wait_for(lambda: stage.stalled(time.monotonic()) is not None)
    item, seconds = stage.stalled(time.monotonic() + 3)
    assert item == "stuck"
    assert seconds >= 3
    stage.restart()
    stage.post("fine")
    wait_for(lambda: got == ["fine"])
    gate.set()
    stage.post("again")
    wait_for(lambda: got == ["fine", "again"])
    stage.close()
