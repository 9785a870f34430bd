"""The floor: nothing stale gets through, however the threads fall."""

import threading

from pipeline.turn import Floor, Tag


def test_tags_order_by_turn_then_revision():
    assert Tag(1, 5) < Tag(2, 0) < Tag(2, 1)
    assert Tag(3, 2).next_turn() == Tag(4, 0)
    assert Tag(3, 2).next_revision() == Tag(3, 3)


def test_deliver_refuses_a_stale_tag():
    floor, got = Floor(), []
    old = floor.take(lambda: None)
    new = floor.revise()
    assert not floor.deliver(old, "stale", got.append)
    assert floor.deliver(new, "fresh", got.append)
    assert got == ["fresh"]


def test_a_reply_outlives_a_revision_and_ends_with_the_next_draft_or_turn():
    floor, silenced = Floor(), []
    floor.take(lambda: None)
    reply = floor.redraft(lambda: silenced.append(1))
    listening = floor.revise()
    assert floor.holds(reply)
    following = floor.redraft(lambda: silenced.append(2))
    assert not floor.holds(reply)
    assert floor.holds(following)
    assert floor.holds(listening)
    floor.take(lambda: silenced.append(3))
    assert not floor.holds(following)
    assert silenced == [1, 2, 3]


def test_no_stale_item_in_ten_thousand_interrupts():
    """A speaker delivers as fast as it can while a caller takes the floor; after a take only newer items may stand."""
    floor, queue, leaks = Floor(), [], []
    stop = threading.Event()

    def speaker():
        while not stop.is_set():
            tag = floor.tag
            floor.deliver(tag, tag, queue.append)

    thread = threading.Thread(target=speaker)
    thread.start()
    try:
        for _ in range(10_000):
            tag = floor.take(queue.clear)
            leaks += [t for t in list(queue) if t < tag]
    finally:
        stop.set()
        thread.join()
    assert leaks == []
    assert floor.tag == Tag(10_000, 0)
