"""The playout orders, gates, counts and clears."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.playout import Piece, Playout
from pipeline.turn import Tag

T1, T2 = Tag(1), Tag(2)


def piece(tag, at, value, n=100, phrase=0):
    return Piece(tag, at, phrase, np.full(n, value, np.int16))


def test_a_draft_waits_at_the_gate():
    playout = Playout()
    playout.push(piece(T1, 0, 1000))
    assert not playout.pull(100).samples.any()
    playout.open(T1)
    pulled = playout.pull(100)
    assert (pulled.samples == 1000).all()
    assert pulled.sounded == 0


def test_a_held_reply_goes_on_where_it_stopped_and_is_no_underrun():
    playout = Playout()
    playout.push(Piece(T1, 0, 0, np.arange(1000, 1400, dtype=np.int16)))
    playout.open(T1)
    playout.pull(100)
    playout.hold(150)
    assert [playout.pull(100).samples.any() for _ in range(2)] == [False, False]
    assert (playout.pull(100).samples == np.arange(1100, 1200)).all()
    assert playout.underruns == 0


def test_clearing_ends_a_hold():
    playout = Playout()
    playout.hold(1000)
    playout.clear()
    playout.push(piece(T2, 0, 1000))
    playout.open(T2)
    assert playout.pull(100).samples.any()


def test_the_first_sounding_sample_is_found_once():
    playout = Playout()
    playout.open(T1)
    quiet = np.concatenate((np.zeros(130, np.int16), np.full(70, 2000, np.int16)))
    playout.push(Piece(T1, 0, 0, quiet))
    assert playout.pull(100).sounded is None
    assert playout.pull(100).sounded == 30
    playout.push(piece(T1, 200, 2000))
    assert playout.pull(100).sounded is None


@given(st.permutations(range(12)), st.integers(1, 400))
def test_pieces_pushed_in_any_order_play_in_media_order(order, n):
    playout = Playout()
    for k in order:
        playout.push(piece(T1, k * 100, 200 + k))
    playout.open(T1)
    playout.finish(T1)
    out, drained = [], None
    while drained is None:
        pulled = playout.pull(n)
        out.append(pulled.samples)
        drained = pulled.drained
    heard = np.concatenate(out)[:1200]
    assert (heard == np.repeat(np.arange(200, 212), 100)).all()
    assert drained == T1
    assert playout.underruns == 0


def test_a_late_piece_does_not_cut_the_one_that_plays():
    playout = Playout()
    playout.open(T1)
    playout.push(piece(T1, 100, 500))
    playout.pull(50)
    playout.push(piece(T1, 0, 300))
    rest = playout.pull(150).samples
    assert (rest[:50] == 500).all()
    assert (rest[50:] == 300).all()


def test_an_underrun_is_counted_once_a_gap_and_only_after_sound():
    playout = Playout()
    playout.open(T1)
    assert not playout.pull(100).underrun  # nothing has sounded: the reply is merely not there yet
    playout.push(piece(T1, 0, 900))
    playout.pull(100)
    assert playout.pull(100).underrun
    assert not playout.pull(100).underrun
    playout.push(piece(T1, 100, 900))
    playout.pull(100)
    assert playout.pull(100).underrun
    assert playout.underruns == 2
    playout.finish(T1)
    assert playout.pull(100).drained == T1


def test_clear_is_silence_and_says_what_was_heard():
    playout = Playout()
    playout.open(T1)
    playout.push(piece(T1, 0, 700, phrase=0))
    playout.push(piece(T1, 100, 700, phrase=1))
    playout.pull(130)
    assert playout.clear() == {0: 100, 1: 30}
    assert not playout.pull(100).samples.any()
    playout.open(T2)
    playout.push(piece(T1, 300, 700))  # of the turn before
    assert playout.dropped == 1
    assert not playout.pull(100).samples.any()


def test_an_older_turn_never_plays_in_a_newer_one():
    playout = Playout()
    playout.push(piece(T2, 0, 222))
    playout.push(piece(Tag(2, 1), 0, 333))
    playout.open(T2)
    assert (playout.pull(100).samples == 222).all()
    assert not playout.pull(100).samples.any()
