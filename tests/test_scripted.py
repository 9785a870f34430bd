"""The scripted engines: what other tests lean on."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

from pipeline.clock import ManualClock
from pipeline.engines.scripted import (
    ScriptedAsr,
    ScriptedLlm,
    ScriptedTts,
    ScriptedTurnmodel,
    ScriptedVad,
    Step,
    tone,
)
from pipeline.errors import Code, EngineError
from pipeline.ports import CAPTURE_RATE, Message, ReplyLimits, Role, Samples, Style, never

ASK = [Message(Role.USER, "hello")]
SOUND = np.full(1600, 0.1, np.float32)


def utterance(asr: ScriptedAsr, sound: Samples = SOUND) -> str:
    hearing = asr.listen()
    hearing.feed(sound)
    return hearing.finish()


def test_steps_come_in_order_and_done_is_content() -> None:
    asr = ScriptedAsr(["one", "two"])
    assert [utterance(asr), utterance(asr)] == ["one", "two"]
    asr.done()


def test_a_step_not_called_for_is_named() -> None:
    tts = ScriptedTts([0.1, 0.25])
    assert list(tts.speak("hi", Style(), never))
    with pytest.raises(AssertionError, match=r"0\.25"):
        tts.done()


def test_a_call_too_many_fails_there_and_in_done() -> None:
    llm = ScriptedLlm([])
    with pytest.raises(AssertionError, match="after the end"):
        llm.reply(ASK, never, ReplyLimits())
    with pytest.raises(AssertionError, match="1 calls too many"):
        llm.done()


def test_without_a_script_every_call_is_answered() -> None:
    turn = ScriptedTurnmodel()
    assert [turn.finished(SOUND) for _ in range(3)] == [0.99] * 3
    turn.done()


def test_texts_of_one_step_are_its_decodes() -> None:
    asr = ScriptedAsr([("I want", "I want two")])
    hearing = asr.listen()
    assert hearing.partial() == ""  # nothing was fed: no decode
    hearing.feed(SOUND)
    assert [hearing.partial(), hearing.partial(), hearing.finish()] == ["I want", "I want two", "I want two"]


def test_a_step_can_fail_before_or_in_the_middle() -> None:
    broken = EngineError(Code.LLM_FAILED, "scripted")
    llm = ScriptedLlm([Step((), error=broken), Step(("Well, ",), error=broken)])
    with pytest.raises(EngineError):
        next(llm.reply(ASK, never, ReplyLimits()))
    heard: list[str] = []
    with pytest.raises(EngineError):
        heard.extend(llm.reply(ASK, never, ReplyLimits()))
    pieces = llm.asked
    assert len(pieces) == 2
    llm.done()


def test_a_bare_string_is_one_delta() -> None:
    assert list(ScriptedLlm(["Hello."]).reply(ASK, never, ReplyLimits())) == ["Hello."]


def test_an_endless_reply_ends_when_cancelled() -> None:
    llm = ScriptedLlm([itertools.repeat("and ")])
    heard: list[str] = []
    for delta in llm.reply(ASK, lambda: len(heard) >= 50, ReplyLimits()):
        heard.append(delta)
    assert len(heard) == 50


def test_a_hanging_step_waits_for_its_event() -> None:
    release, answers = threading.Event(), list[str]()
    asr = ScriptedAsr([Step("late", until=release)])
    thread = threading.Thread(target=lambda: answers.append(utterance(asr)))
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    assert answers == []
    release.set()
    thread.join(5)
    assert answers == ["late"]


def test_a_slow_step_takes_its_time_on_the_clock() -> None:
    clock, answers = ManualClock(), list[float]()
    turn = ScriptedTurnmodel([Step(0.4, after_s=2.0)], clock)
    thread = threading.Thread(target=lambda: answers.append(turn.finished(SOUND)))
    started = clock.now()
    thread.start()
    while thread.is_alive() and clock.now() < started + 60:
        clock.advance(0.5)
        thread.join(0.02)
    assert answers == [0.4]
    assert clock.now() - started >= 2.0


def test_the_vad_without_a_script_hears_tones_and_not_silence() -> None:
    vad = ScriptedVad().stream()
    loud = np.concatenate(list(tone(0.2, CAPTURE_RATE)))[:512]
    assert vad.probability(loud) > 0.9
    assert vad.probability(np.zeros(512, np.float32)) < 0.1
    assert vad.probability(loud * 0.01) < 0.1


def test_the_vad_follows_its_script() -> None:
    vad = ScriptedVad([0.1, 0.9])
    assert [vad.stream().probability(SOUND[:512]) for _ in range(2)] == [0.1, 0.9]
    vad.done()


def test_the_voice_is_as_long_as_scripted_and_keeps_what_it_was_asked() -> None:
    tts = ScriptedTts([0.25])
    pieces = list(tts.speak("hi", Style(), never))
    assert sum(len(p) for p in pieces) == tts.rate // 4
    assert tts.spoken == ["hi"]
    assert not list(tts.speak("...", Style(), never))
    tts.done()
