"""VAD and turn model: a probability for any sound, state that is the visitor's own."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.engines.registry import Kind, Row
from pipeline.ports import Samples, Turnmodel, Vad
from tests.contract.ground import BAD_AUDIO, VISITORS, at_once, caller, engine, of, spoken


@pytest.mark.parametrize("known", of(Kind.VAD))
@pytest.mark.parametrize("audio", BAD_AUDIO.values(), ids=BAD_AUDIO.keys())
def test_vad_meets_any_frame_and_recovers(known: Row, audio: Samples) -> None:
    vad: Vad = engine(Kind.VAD, known.name)
    size = vad.frame_samples
    stream = vad.stream()
    for frame in (np.resize(audio, size) if audio.size else np.zeros(size, np.float32),) * 10:
        assert 0.0 <= stream.probability(frame) <= 1.0
    quiet = [stream.probability(np.zeros(size, np.float32)) for _ in range(60)]
    assert quiet[-1] < 0.3, "after two seconds of silence there is no speech"
    voice = caller(1.0, 150.0) if known.scripted else spoken("Hello, are you open on Sunday?")
    heard = [stream.probability(voice[at : at + size]) for at in range(0, voice.size - size, size)]
    assert max(heard) > 0.8, "and whoever speaks then is heard"


@pytest.mark.parametrize("known", of(Kind.VAD))
def test_vad_visitors_do_not_touch_each_other(known: Row) -> None:
    vad: Vad = engine(Kind.VAD, known.name)
    size = vad.frame_samples

    def listen(visitor: int) -> list[float]:
        audio, stream = caller(0.5, 110.0 + 20.0 * visitor), vad.stream()
        return [stream.probability(audio[at : at + size]) for at in range(0, audio.size - size, size)]

    assert at_once(listen) == [listen(v) for v in range(VISITORS)]


@pytest.mark.parametrize("known", of(Kind.TURN))
@pytest.mark.parametrize("audio", BAD_AUDIO.values(), ids=BAD_AUDIO.keys())
def test_turn_model_meets_any_audio(known: Row, audio: Samples) -> None:
    model: Turnmodel = engine(Kind.TURN, known.name)
    given = audio.copy()
    assert 0.0 <= model.finished(audio) <= 1.0
    assert np.array_equal(audio, given, equal_nan=True), "the caller's audio is left alone"


@pytest.mark.parametrize("known", of(Kind.TURN))
def test_turn_model_looks_at_the_end_of_long_speech(known: Row) -> None:
    model: Turnmodel = engine(Kind.TURN, known.name)
    assert 0.0 <= model.finished(caller(40.0, 150.0)) <= 1.0


@pytest.mark.parametrize("known", of(Kind.TURN))
def test_turn_model_visitors_do_not_touch_each_other(known: Row) -> None:
    model: Turnmodel = engine(Kind.TURN, known.name)

    def judge(visitor: int) -> float:
        return model.finished(caller(0.5 + 0.1 * visitor, 120.0 + 15.0 * visitor))

    assert at_once(judge) == pytest.approx([judge(v) for v in range(VISITORS)], abs=1e-4)
