"""Recognisers: text of any audio, the same when asked again, each visitor's own."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.engines.registry import Kind, Row
from pipeline.ports import Asr, Samples
from tests.contract.ground import BAD_AUDIO, VISITORS, at_once, caller, engine, of, spoken, tiny

WORDS = (
    "shoes jacket invoice password delivery manager email Saturday garden window "
    "kitchen doctor station holiday ticket battery market bottle camera winter"
).split()


@pytest.mark.parametrize("known", of(Kind.ASR))
@pytest.mark.parametrize("audio", BAD_AUDIO.values(), ids=BAD_AUDIO.keys())
def test_asr_meets_any_audio(known: Row, audio: Samples) -> None:
    asr: Asr = engine(Kind.ASR, known.name)
    hearing = asr.listen()
    hearing.feed(audio)
    given = audio.copy()
    texts = [hearing.partial(), hearing.finish()]
    assert all(isinstance(t, str) and len(t) < 100 for t in texts)
    assert np.array_equal(audio, given, equal_nan=True), "the caller's audio is left alone"
    if not known.scripted and not tiny(known) and audio.size and not np.abs(np.nan_to_num(audio, posinf=0.0)).any():
        assert texts == ["", ""], "silence has no words"


@pytest.mark.parametrize("known", of(Kind.ASR))
def test_asr_without_audio_has_no_words(known: Row) -> None:
    asr: Asr = engine(Kind.ASR, known.name)
    assert asr.listen().finish() == ""
    assert asr.listen().partial() == ""


@pytest.mark.parametrize("known", of(Kind.ASR))
def test_asr_asked_again_answers_the_same(known: Row) -> None:
    asr: Asr = engine(Kind.ASR, known.name)
    hearing = asr.listen()
    hearing.feed(caller(1.5, 140.0))
    running, first = hearing.partial(), hearing.settled()
    assert [hearing.partial(), hearing.settled(), hearing.finish()] == [running, first, first]


@pytest.mark.parametrize("known", of(Kind.ASR))
def test_asr_survives_a_monologue_without_repeating_itself_for_ever(known: Row) -> None:
    asr: Asr = engine(Kind.ASR, known.name)
    hearing = asr.listen()
    seconds = 20 if tiny(known) else 60  # tiny models run in libraries that take their time for each chunk
    for _ in range(seconds // 10):
        hearing.feed(caller(10.0, 130.0))
    text = hearing.finish()
    assert len(text.split()) < seconds * 5, "nobody says more than five words a second"
    assert len(text) < seconds * 30


@pytest.mark.parametrize("known", of(Kind.ASR))
def test_asr_visitors_do_not_touch_each_other(known: Row) -> None:
    """Everybody says a different word at once; each is told what they are told when alone."""
    asr: Asr = engine(Kind.ASR, known.name)
    if known.scripted:
        pytest.skip("hears what its script says")
    audio = [spoken(word if tiny(known) else f"I am calling about the {word}.") for word in WORDS]

    def listen(visitor: int) -> str:
        hearing = asr.listen()
        for at in range(0, audio[visitor].size, 1600):
            hearing.feed(audio[visitor][at : at + 1600])
            if at % 8000 == 0:
                hearing.partial()
        return hearing.finish()

    heard = at_once(listen)
    assert heard == [listen(v) for v in range(VISITORS)]
    if tiny(known):
        assert len(set(heard)) > VISITORS // 2, "other words give another text"
    else:
        assert [w for w, text in zip(WORDS, heard, strict=True) if w.lower() in text.lower()] == WORDS
