"""What an engine keeps: memory stays flat over hundreds of calls, and a closed iterator leaves no thread behind.

Memory is the process's, measured over the tiny models and Silero: a call of the other embedded engines takes too long
for hundreds of them.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from pipeline.engines.registry import Kind, Row
from pipeline.ports import Asr, Llm, Message, ReplyLimits, Role, Style, Tts, Turnmodel, Vad, never
from tests.contract.ground import caller, close, engine, of, tiny
from tests.memory import CALLS, growth

LEAK = 8_192  # bytes a call: 2,048 samples, 128 ms of what a caller says
LIGHT = {"silero"}
GONE_WITHIN_S = 10.0
SOUND = caller(0.3, 140.0)
FRAMES = 3
TRIES = 5  # where heaps are still being filled
AT_ONCE = 10  # where a call is spent waiting for a server
ASK = [Message(Role.USER, "Hello?")]


def _vad(vad: Vad) -> None:
    stream, size = vad.stream(), vad.frame_samples
    for frame in range(FRAMES):
        stream.probability(SOUND[frame * size : (frame + 1) * size])


def _turn(model: Turnmodel) -> None:
    model.finished(SOUND)


def _asr(asr: Asr) -> None:
    hearing = asr.listen()
    hearing.feed(SOUND)
    hearing.partial()
    hearing.finish()


def _llm(llm: Llm) -> None:
    list(llm.reply(ASK, never, ReplyLimits(max_tokens=2)))


def _tts(tts: Tts) -> None:
    list(tts.speak("Hello.", Style(), never))


ONE: dict[Kind, Callable[..., None]] = {
    Kind.VAD: _vad,
    Kind.TURN: _turn,
    Kind.ASR: _asr,
    Kind.LLM: _llm,
    Kind.TTS: _tts,
}


@pytest.mark.memory
@pytest.mark.parametrize("known", [p for p in of(*Kind) if tiny(p.values[0]) or p.values[0].name in LIGHT])
def test_memory_stays_flat(known: Row) -> None:
    made = engine(known.kind, known.name)
    served = not (known.weights or known.models)
    # glibc gives the threads of client and server heaps of their own, and takes thousands of calls to fill them: what
    # a call adds falls from 9 kB to 2 kB over 3,000 of them. What is lost with every call never falls.
    many = {"at_once": AT_ONCE, "warm_up": CALLS} if served else {}
    grown: list[float] = []
    while len(grown) < (TRIES if served else 1) and (not grown or grown[-1] >= LEAK):
        grown.append(growth(lambda: ONE[known.kind](made), **many))
    assert grown[-1] < LEAK, grown


@pytest.mark.memory
@pytest.mark.engines  # it needs none, but where they are loaded is where it must hold
@pytest.mark.parametrize("kept", [0, LEAK * 3 // 2])
def test_the_measure_of_memory_sees_a_leak(kept: int) -> None:
    leak: list[object] = []
    for_sure = growth(lambda: leak.append(np.ones(kept, np.uint8)))
    assert (for_sure >= LEAK) == bool(kept)


@pytest.mark.parametrize("known", of(Kind.LLM, Kind.TTS))
def test_a_closed_iterator_leaves_no_thread(known: Row) -> None:
    """Closed at once, half way, after a cancellation; and abandoned."""
    made = engine(known.kind, known.name)
    list(_begin(known.kind, made, never))
    before = set(threading.enumerate())
    for pieces_taken in (0, 1, 3):
        pieces = _begin(known.kind, made, never)
        for _ in range(pieces_taken):
            next(pieces, None)
        close(pieces)
    list(_begin(known.kind, made, lambda: True))
    abandoned = _begin(known.kind, made, never)
    next(abandoned, None)
    del abandoned
    gc.collect()
    until = time.monotonic() + GONE_WITHIN_S
    while (left := [t.name for t in set(threading.enumerate()) - before]) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left


def _begin(kind: Kind, made: Llm | Tts, cancel: Callable[[], bool]) -> Iterator[object]:
    if kind is Kind.LLM:
        return made.reply(ASK, cancel, ReplyLimits(max_tokens=24))  # type: ignore[union-attr]
    return made.speak("We are open from nine to six on every day but Sunday.", Style(), cancel)  # type: ignore[union-attr]
