"""One contract for every engine in the registry: a new row is tested here without a line added.

What a port promises: ranges and shapes, no surprise from bad audio or odd text, coded errors only, cancellation that
acts, and visitors who cannot touch each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pytest

from pipeline.engines.registry import Kind, Row, create, row, rows
from pipeline.engines.scripted import tone
from pipeline.errors import Code, EngineError
from pipeline.ports import (
    CAPTURE_RATE,
    Asr,
    EngineOptions,
    Llm,
    Message,
    ReplyLimits,
    Role,
    Samples,
    Style,
    Tts,
    Turnmodel,
    Vad,
    never,
)

VISITORS = 8
T = TypeVar("T")
RNG = np.random.default_rng(5)

BAD_AUDIO: dict[str, Samples] = {
    "silence": np.zeros(CAPTURE_RATE, np.float32),
    "noise": RNG.normal(0.0, 0.05, CAPTURE_RATE).astype(np.float32),
    "nan": np.full(CAPTURE_RATE, np.nan, np.float32),
    "infinite": np.full(CAPTURE_RATE, np.inf, np.float32),
    "clipped": np.where(RNG.random(CAPTURE_RATE) > 0.5, 1.0, -1.0).astype(np.float32),
    "beyond full scale": RNG.normal(0.0, 50.0, CAPTURE_RATE).astype(np.float32),
    "one sample": np.full(1, 0.5, np.float32),
    "empty": np.zeros(0, np.float32),
}
ODD_TEXT = {
    "empty": "",
    "blank": "  \n ",
    "dots": "...",
    "emoji": "\U0001f600\U0001f680",
    "signs": "?! -- \u2014 (",
    "quote": '"',
}


ODD_QUESTIONS = {**ODD_TEXT, "marks": "\x00<|im_end|>", "long": "long " * 2000}


def of(kind: Kind) -> list[Any]:
    """Every engine of one kind, as parameters; the real ones load models."""
    return [
        pytest.param(r, id=r.name, marks=[] if r.scripted else [pytest.mark.engines])
        for r in rows(scripted=True)
        if r.kind == kind
    ]


@cache
def _engine(kind: Kind, name: str) -> Any:
    made: Any = create(kind, name, EngineOptions(threads=1))  # type: ignore[call-overload]
    made.warm_up()
    return made


def at_once(work: Callable[[int], T]) -> list[T]:
    """The results of `work(visitor)` for all visitors, run at the same time."""
    with ThreadPoolExecutor(VISITORS) as pool:
        return list(pool.map(work, range(VISITORS)))


def caller(seconds: float, hertz: float) -> Samples:
    """A buzzing sound with the rhythm of syllables: enough like a voice to differ by pitch and length."""
    samples = np.concatenate(list(tone(seconds, CAPTURE_RATE, hertz)))
    rhythm = 0.5 + 0.5 * np.sin(2.0 * np.pi * 4.0 * np.arange(samples.size) / CAPTURE_RATE)
    return (samples * rhythm).astype(np.float32)


# -- the registry itself


@pytest.mark.parametrize("known", [pytest.param(r, id=f"{r.kind}-{r.name}") for r in rows(scripted=True)])
def test_a_row_is_complete(known: Row) -> None:
    assert row(known.kind, known.name) is known
    assert known.licence
    assert known.languages
    assert known.about("en") != known.about("zh")
    assert all("==" in p for p in known.packages), "every package is pinned"
    if not known.scripted:
        assert known.install.startswith("pip install ")
        assert sum(w.size for w in known.weights) / 1e6 == pytest.approx(known.size_mb, abs=0.1)


def test_each_kind_has_a_real_engine_and_scripted_ones_are_not_listed() -> None:
    assert {r.kind for r in rows()} == set(Kind)
    assert not [r for r in rows() if r.scripted]


def test_the_default_settings_name_real_engines() -> None:
    from pipeline.settings import Settings

    chosen = Settings()
    names = (chosen.vad, chosen.turn_model, chosen.asr, chosen.llm, chosen.tts)
    assert not [n for kind, n in zip(Kind, names, strict=True) if row(kind, n).scripted]


def test_an_unknown_name_is_met_with_the_known_ones() -> None:
    with pytest.raises(EngineError, match="moonshine") as caught:
        create(Kind.ASR, "whisperer", EngineOptions())
    assert caught.value.code is Code.UNKNOWN_ENGINE


def test_a_missing_package_is_met_with_its_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # what import meets when it is not installed
    with pytest.raises(EngineError, match="onnxruntime") as caught:
        create(Kind.VAD, "silero", EngineOptions())
    assert caught.value.code is Code.PACKAGE_MISSING
    assert "pip install onnxruntime==" in caught.value.remedy


# -- VAD


@pytest.mark.parametrize("known", of(Kind.VAD))
@pytest.mark.parametrize("audio", BAD_AUDIO.values(), ids=BAD_AUDIO.keys())
def test_vad_meets_any_frame_and_recovers(known: Row, audio: Samples) -> None:
    vad: Vad = _engine(Kind.VAD, known.name)
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
    vad: Vad = _engine(Kind.VAD, known.name)
    size = vad.frame_samples

    def listen(visitor: int) -> list[float]:
        audio, stream = caller(1.0, 110.0 + 20.0 * visitor), vad.stream()
        return [stream.probability(audio[at : at + size]) for at in range(0, audio.size - size, size)]

    assert at_once(listen) == [listen(v) for v in range(VISITORS)]


# -- turn model


@pytest.mark.parametrize("known", of(Kind.TURN))
@pytest.mark.parametrize("audio", BAD_AUDIO.values(), ids=BAD_AUDIO.keys())
def test_turn_model_meets_any_audio(known: Row, audio: Samples) -> None:
    model: Turnmodel = _engine(Kind.TURN, known.name)
    given = audio.copy()
    assert 0.0 <= model.finished(audio) <= 1.0
    assert np.array_equal(audio, given, equal_nan=True), "the caller's audio is left alone"


@pytest.mark.parametrize("known", of(Kind.TURN))
def test_turn_model_looks_at_the_end_of_long_speech(known: Row) -> None:
    model: Turnmodel = _engine(Kind.TURN, known.name)
    assert 0.0 <= model.finished(caller(40.0, 150.0)) <= 1.0


@pytest.mark.parametrize("known", of(Kind.TURN))
def test_turn_model_visitors_do_not_touch_each_other(known: Row) -> None:
    model: Turnmodel = _engine(Kind.TURN, known.name)

    def judge(visitor: int) -> float:
        return model.finished(caller(0.5 + 0.2 * visitor, 120.0 + 15.0 * visitor))

    assert at_once(judge) == pytest.approx([judge(v) for v in range(VISITORS)], abs=1e-4)


# -- ASR


@pytest.mark.parametrize("known", of(Kind.ASR))
@pytest.mark.parametrize("audio", BAD_AUDIO.values(), ids=BAD_AUDIO.keys())
def test_asr_meets_any_audio(known: Row, audio: Samples) -> None:
    asr: Asr = _engine(Kind.ASR, known.name)
    hearing = asr.listen()
    hearing.feed(audio)
    given = audio.copy()
    texts = [hearing.partial(), hearing.finish()]
    assert all(isinstance(t, str) and len(t) < 100 for t in texts)
    assert np.array_equal(audio, given, equal_nan=True), "the caller's audio is left alone"
    if not known.scripted and audio.size and not np.abs(np.nan_to_num(audio, posinf=0.0)).any():
        assert texts == ["", ""], "silence has no words"


@pytest.mark.parametrize("known", of(Kind.ASR))
def test_asr_without_audio_has_no_words(known: Row) -> None:
    asr: Asr = _engine(Kind.ASR, known.name)
    assert asr.listen().finish() == ""
    assert asr.listen().partial() == ""


@pytest.mark.parametrize("known", of(Kind.ASR))
def test_asr_asked_again_answers_the_same(known: Row) -> None:
    asr: Asr = _engine(Kind.ASR, known.name)
    hearing = asr.listen()
    hearing.feed(caller(1.5, 140.0))
    first = hearing.partial()
    assert [hearing.partial(), hearing.finish()] == [first, first]


@pytest.mark.parametrize("known", of(Kind.ASR))
def test_asr_survives_a_minute_without_repeating_itself_for_ever(known: Row) -> None:
    asr: Asr = _engine(Kind.ASR, known.name)
    hearing = asr.listen()
    for _ in range(6):
        hearing.feed(caller(10.0, 130.0))
    assert len(hearing.finish().split()) < 60 * 5, "nobody says more than five words a second"


@pytest.mark.parametrize("known", of(Kind.ASR))
def test_asr_visitors_do_not_touch_each_other(known: Row) -> None:
    """Eight people say a different word at once, in the voice of an engine of ours; each is told their own."""
    asr: Asr = _engine(Kind.ASR, known.name)
    if known.scripted or "en" not in known.languages:
        pytest.skip("hears no English")
    words = ("shoes", "jacket", "invoice", "password", "delivery", "manager", "email", "Saturday")

    def listen(visitor: int) -> str:
        audio = spoken(f"I am calling about the {words[visitor]}.")
        hearing = asr.listen()
        for at in range(0, audio.size, 1600):
            hearing.feed(audio[at : at + 1600])
            if at % 8000 == 0:
                hearing.partial()
        return hearing.finish()

    heard = at_once(listen)
    assert heard == [listen(v) for v in range(VISITORS)]
    assert [w for w, text in zip(words, heard, strict=True) if w.lower() in text.lower()] == list(words)


@cache
def spoken(text: str) -> Samples:
    """`text` in the first English voice of the registry, 16 kHz."""
    import soxr

    voice = next(r for r in rows() if r.kind == Kind.TTS and "en" in r.languages)
    tts: Tts = _engine(Kind.TTS, voice.name)
    audio = np.concatenate(list(tts.speak(text, Style(), never)))
    return np.asarray(soxr.resample(audio, tts.rate, CAPTURE_RATE), np.float32)


# -- LLM

ASK = [Message(Role.SYSTEM, "You answer in one short sentence."), Message(Role.USER, "What colour is the sky?")]


@pytest.mark.parametrize("known", of(Kind.LLM))
def test_llm_answers_in_text(known: Row) -> None:
    llm: Llm = _engine(Kind.LLM, known.name)
    llm.warm(ASK[:1])
    deltas = list(llm.reply(ASK, never, ReplyLimits(max_tokens=12)))
    assert all(isinstance(d, str) for d in deltas)
    assert "".join(deltas).strip()
    if not known.scripted:
        assert len("".join(deltas).split()) <= 12


@pytest.mark.parametrize("known", of(Kind.LLM))
@pytest.mark.parametrize(
    "text", [*ODD_TEXT.values(), "\x00<|im_end|>", "long " * 2000], ids=[*ODD_TEXT, "marks", "long"]
)
def test_llm_meets_any_question(known: Row, text: str) -> None:
    """An answer or a coded error; never another exception, never a hang."""
    llm: Llm = _engine(Kind.LLM, known.name)
    deltas, code = list[str](), Code.LLM_EMPTY
    try:
        deltas = list(llm.reply([ASK[0], Message(Role.USER, text)], never, ReplyLimits(max_tokens=4)))
    except EngineError as error:
        code = error.code
    assert code.startswith("llm.")
    assert all(isinstance(d, str) for d in deltas)


@pytest.mark.parametrize("known", of(Kind.LLM))
def test_llm_cancelled_stops_and_answers_the_next(known: Row) -> None:
    llm: Llm = _engine(Kind.LLM, known.name)
    heard: list[str] = []
    long = [Message(Role.USER, "Tell me a long story about a ship, with every detail.")]
    for delta in llm.reply(long, lambda: len(heard) >= 2, ReplyLimits(max_tokens=200)):
        heard.append(delta)
    assert len(heard) <= 12, "a few pieces may already be on their way"
    assert list(llm.reply(ASK, lambda: True, ReplyLimits())) == []
    assert "".join(llm.reply(ASK, never, ReplyLimits(max_tokens=8)))


@pytest.mark.parametrize("known", of(Kind.LLM))
def test_llm_closed_half_way_answers_the_next(known: Row) -> None:
    llm: Llm = _engine(Kind.LLM, known.name)
    pieces = llm.reply(ASK, never, ReplyLimits(max_tokens=60))
    next(pieces)
    _close(pieces)
    assert "".join(llm.reply(ASK, never, ReplyLimits(max_tokens=8)))


@pytest.mark.parametrize("known", of(Kind.LLM))
def test_llm_visitors_do_not_touch_each_other(known: Row) -> None:
    llm: Llm = _engine(Kind.LLM, known.name)
    words = ("cat", "dog", "horse", "bird", "fish", "snake", "lion", "mouse")

    def ask(visitor: int) -> str:
        request = [Message(Role.USER, f"Repeat this word and nothing else: {words[visitor]}")]
        return "".join(llm.reply(request, never, ReplyLimits(max_tokens=10))).lower()

    for visitor, reply in enumerate(at_once(ask)):
        others = [w for w in words if w != words[visitor] and w in reply and w not in ask(visitor)]
        assert not others, f"visitor {visitor} was told {reply!r}"


# -- TTS


@pytest.mark.parametrize("known", of(Kind.TTS))
def test_tts_speaks_at_once_and_in_range(known: Row) -> None:
    tts: Tts = _engine(Kind.TTS, known.name)
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
    tts: Tts = _engine(Kind.TTS, known.name)
    assert list(tts.speak(text, Style(), never)) == []


@pytest.mark.parametrize("known", [p for p in of(Kind.TTS) if p.values[0].languages == ("en",)])
def test_an_english_voice_leaves_chinese_alone(known: Row) -> None:
    tts: Tts = _engine(Kind.TTS, known.name)
    assert list(tts.speak("\u4f60\u597d\uff0c\u6b22\u8fce\u5149\u4e34\u3002", Style(), never)) == []


@pytest.mark.parametrize("known", of(Kind.TTS))
def test_tts_keeps_to_the_pace_asked_for(known: Row) -> None:
    tts: Tts = _engine(Kind.TTS, known.name)

    def seconds(speed: float) -> float:
        return sum(p.size for p in tts.speak("We are open from nine to six.", Style(speed=speed), never)) / tts.rate

    assert seconds(2.0) < seconds(1.0) < seconds(0.5)


@pytest.mark.parametrize("known", of(Kind.TTS))
def test_tts_begins_a_long_text_before_it_is_done(known: Row) -> None:
    tts: Tts = _engine(Kind.TTS, known.name)
    pieces = tts.speak("hello there my friend " * 60, Style(), never)
    assert len(list(islice(pieces, 3))) == 3
    _close(pieces)


@pytest.mark.parametrize("known", of(Kind.TTS))
def test_tts_cancelled_stops_and_speaks_the_next(known: Row) -> None:
    tts: Tts = _engine(Kind.TTS, known.name)
    heard: list[Samples] = []
    for piece in tts.speak("One two three four five six seven eight nine ten.", Style(), lambda: len(heard) >= 2):
        heard.append(piece)
    assert len(heard) == 2
    assert list(tts.speak("Hello.", Style(), lambda: True)) == []
    assert list(tts.speak("Hello.", Style(), never))


@pytest.mark.parametrize("known", of(Kind.TTS))
def test_tts_refuses_an_unknown_voice_with_a_code(known: Row) -> None:
    tts: Tts = _engine(Kind.TTS, known.name)
    if known.scripted:
        pytest.skip("has no voices")
    with pytest.raises(EngineError) as caught:
        list(tts.speak("Hello.", Style(voice="nobody"), never))
    assert caught.value.code is Code.TTS_FAILED


@pytest.mark.parametrize("known", of(Kind.TTS))
def test_tts_visitors_do_not_touch_each_other(known: Row) -> None:
    tts: Tts = _engine(Kind.TTS, known.name)

    def speak(visitor: int) -> Samples:
        return np.concatenate(list(tts.speak(f"Your order number is {visitor} and {visitor}.", Style(), never)))

    alone = [speak(v) for v in range(VISITORS)]
    for together, expected in zip(at_once(speak), alone, strict=True):
        assert np.allclose(together, expected, atol=1e-3)


def _close(pieces: Iterator[object]) -> None:
    close = getattr(pieces, "close", None)
    if close is not None:
        close()
