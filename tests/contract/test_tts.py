"""Voices: sound at once and in range, nothing for nothing, each visitor their own phrase."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from pipeline.engines.registry import Kind, Row
from pipeline.errors import Code, EngineError
from pipeline.ports import Samples, Style, Tts, never
from tests.contract.ground import ODD_TEXT, VISITORS, at_once, close, engine, of


@pytest.mark.parametrize("known", of(Kind.TTS))
def test_tts_speaks_at_once_and_in_range(known: Row) -> None:
    tts: Tts = engine(Kind.TTS, known.name)
    pieces = list(tts.speak("We are open from nine to six.", Style(), never))
    audio = np.concatenate(pieces)
    assert all(p.dtype == np.float32 and p.ndim == 1 and p.size for p in pieces)
    assert max(p.size for p in pieces) <= tts.rate, "a barge-in waits for one piece at most"
    assert np.isfinite(audio).all()
    assert np.abs(audio).max() <= 1.0
    assert 0.5 < audio.size / tts.rate < 10.0
    loud = np.flatnonzero(np.abs(audio) > 10 ** (-45 / 20))
    assert loud[0] < 0.02 * tts.rate, "no leading silence"
    assert audio.size - loud[-1] < 0.2 * tts.rate, "little trailing silence"


@pytest.mark.parametrize("known", of(Kind.TTS))
@pytest.mark.parametrize("text", ODD_TEXT.values(), ids=ODD_TEXT.keys())
def test_tts_of_nothing_is_nothing(known: Row, text: str) -> None:
    tts: Tts = engine(Kind.TTS, known.name)
    assert list(tts.speak(text, Style(), never)) == []


@pytest.mark.parametrize("known", [p for p in of(Kind.TTS) if p.values[0].languages == ("en",)])
def test_an_english_voice_leaves_chinese_alone(known: Row) -> None:
    tts: Tts = engine(Kind.TTS, known.name)
    assert list(tts.speak("\u4f60\u597d\uff0c\u6b22\u8fce\u5149\u4e34\u3002", Style(), never)) == []


@pytest.mark.parametrize("known", of(Kind.TTS))
def test_tts_keeps_to_the_pace_asked_for(known: Row) -> None:
    tts: Tts = engine(Kind.TTS, known.name)

    def seconds(speed: float) -> float:
        return sum(p.size for p in tts.speak("We are open from nine to six.", Style(speed=speed), never)) / tts.rate

    assert seconds(2.0) < seconds(1.0) < seconds(0.5)


@pytest.mark.parametrize("known", of(Kind.TTS))
def test_tts_begins_a_long_text_before_it_is_done(known: Row) -> None:
    tts: Tts = engine(Kind.TTS, known.name)
    pieces = tts.speak("hello there my friend " * 60, Style(), never)
    assert len(list(islice(pieces, 3))) == 3
    close(pieces)


@pytest.mark.parametrize("known", of(Kind.TTS))
def test_tts_cancelled_stops_and_speaks_the_next(known: Row) -> None:
    tts: Tts = engine(Kind.TTS, known.name)
    heard: list[Samples] = []
    for piece in tts.speak("One two three four five six seven eight nine ten.", Style(), lambda: len(heard) >= 2):
        heard.append(piece)
    assert len(heard) == 2
    assert list(tts.speak("Hello.", Style(), lambda: True)) == []
    assert list(tts.speak("Hello.", Style(), never))


@pytest.mark.parametrize("known", of(Kind.TTS))
def test_tts_refuses_an_unknown_voice_with_a_code(known: Row) -> None:
    tts: Tts = engine(Kind.TTS, known.name)
    if known.scripted:
        pytest.skip("has no voices")
    with pytest.raises(EngineError) as caught:
        list(tts.speak("Hello.", Style(voice="nobody"), never))
    assert caught.value.code is Code.TTS_FAILED


@pytest.mark.parametrize("known", of(Kind.TTS))
def test_tts_visitors_do_not_touch_each_other(known: Row) -> None:
    tts: Tts = engine(Kind.TTS, known.name)

    def speak(visitor: int) -> Samples:
        return np.concatenate(list(tts.speak(f"Your order number is {visitor} and {visitor}.", Style(), never)))

    alone = [speak(v) for v in range(VISITORS)]
    for together, expected in zip(at_once(speak), alone, strict=True):
        assert np.allclose(together, expected, atol=1e-3)
