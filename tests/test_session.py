"""Every started turn ends in exactly one way, whatever the engines and the caller do."""

import threading
import time
from collections import Counter

import numpy as np
import pytest

from pipeline.engines.scripted import ScriptedAsr, ScriptedLlm, ScriptedTts, ScriptedTurnmodel, ScriptedVad, Step
from pipeline.errors import Code, EngineError
from pipeline.events import DraftDropped, DraftStarted, Endpointed, NoticeCode, Outcome, State, Utterance
from pipeline.ports import Chunk
from pipeline.session import running_sessions
from pipeline.settings import Settings
from pipeline.timeline import Mark
from tests.call import Call


def each_turn_ended_once(call):
    ends = call.ends()
    started = {t.number for t in call.turns}
    assert Counter(e.tag.turn for e in ends) == Counter(started)
    for end in ends:
        assert (end.code is not None) == (end.outcome is Outcome.FAILED)


def test_a_turn_is_answered():
    with Call() as call:
        call.ask()
        assert call.last.state is State.COMMITTED
        audio = call.listen(3.0)
        turn = call.last
        assert turn.state is State.ANSWERED
        assert turn.heard == "Hello there."
        assert turn.reply == turn.spoken == "This is a scripted reply."
        assert np.abs(audio).max() > 3000
        assert call.engines.tts.spoken == ["This is a scripted", "reply."]
        each_turn_ended_once(call)


def test_marks_are_in_order_and_the_end_of_speech_is_dated_back():
    with Call() as call:
        call.say(0.6)
        end = call.clock.now()
        call.quiet(0.15)
        call.quiet(1.0)
        call.listen(3.0)
        marks = call.last.timeline.marks
        assert marks[Mark.SPEECH_END] == pytest.approx(end, abs=0.03)
        assert marks[Mark.SPEECH_START] < marks[Mark.SPEECH_END] < marks[Mark.ENDPOINT] <= marks[Mark.RELEASED]
        assert call.last.spans.think == 0  # the draft had it
        assert call.last.drafted


def test_without_drafts_nothing_is_thought_before_the_endpoint():
    with Call(Settings(draft=False)) as call:
        call.say(0.6)
        call.quiet(0.06)
        assert call.engines.llm.asked == []
        call.quiet(1.0)
        call.listen(3.0)
        assert call.last.state is State.ANSWERED
        assert not call.last.drafted
        marks = call.last.timeline.marks
        assert marks[Mark.FIRST_PHRASE] >= marks[Mark.ENDPOINT]


def test_a_draft_is_dropped_when_the_caller_goes_on_and_never_heard():
    asr = ScriptedAsr([("I would", "I would like two.")])
    llm = ScriptedLlm(["Wrong.", "Right."])
    with Call(asr=asr, llm=llm, turn_model=ScriptedTurnmodel([0.1, 0.99])) as call:
        call.say(0.4)
        call.quiet(0.3)
        call.say(0.4)
        call.quiet(0.15)
        call.quiet(0.5)
        call.listen(2.0)
        assert call.last.heard == "I would like two."
        assert call.last.reply == "Right."
        kinds = [type(e) for e in call.session.events()[0]]
        assert kinds.count(DraftStarted) == 2
        assert kinds.count(DraftDropped) == 1
        seen = call.session.snapshot()
        assert (seen.drafts, seen.drafts_dropped, seen.draft_hits) == (2, 1, 1)
        assert seen.wasted_tokens == call.last.wasted_tokens == 1
        assert (call.last.drafts, call.last.drafts_dropped) == (2, 1)
        llm.done()
        each_turn_ended_once(call)


def test_the_turn_model_decides_how_long_is_waited():
    waited = {}
    for p in (0.0, 0.45, 1.0):
        with Call(Settings(endpoint_floor_ms=100, endpoint_ceiling_ms=900), turn_model=ScriptedTurnmodel([p])) as call:
            call.say(0.5)
            call.quiet(0.08)
            call.quiet(1.2)
            waited[p] = next(e.waited_ms for e in call.session.events()[0] if isinstance(e, Endpointed))
    assert waited == {0.0: 900, 0.45: 500, 1.0: 100}


def test_serial_mode_does_one_thing_after_the_other():
    with Call(serial=True) as call:
        call.say(0.6)
        call.quiet(0.06)
        assert call.last.heard == ""
        call.quiet(1.0)
        call.listen(3.0)
        marks = call.last.timeline.marks
        assert marks[Mark.ENDPOINT] <= marks[Mark.TRANSCRIPT] <= marks[Mark.FIRST_PHRASE] <= marks[Mark.FIRST_AUDIO]
        assert call.engines.tts.spoken == ["This is a scripted reply."]


# -- interruptions


def reached(state, call):
    """Bring the turn of `call` into `state`."""
    call.say(0.5)
    if state is State.HEARING:
        return
    call.quiet(0.06)
    if state is State.PAUSED:
        return
    call.quiet(1.0)
    if state is State.SPEAKING:
        call.listen(0.5)


@pytest.mark.parametrize("state", [State.COMMITTED, State.SPEAKING])
def test_barge_in_ends_the_reply_and_begins_a_turn(state):
    with Call() as call:
        reached(state, call)
        assert call.last.state is state
        call.say(0.5)
        first, second = call.turns
        assert first.state is State.INTERRUPTED
        assert second.state is State.HEARING
        assert not call.session.pull(960).any()
        call.quiet(1.2)
        call.listen(3.0)
        assert call.last.state is State.ANSWERED
        each_turn_ended_once(call)


def test_the_reply_holds_its_breath_for_a_knock_and_goes_on():
    with Call() as call:
        reached(State.SPEAKING, call)
        call.say(0.02)
        assert not call.session.pull(960).any()
        assert call.last.state is State.SPEAKING
        call.quiet(0.05)
        call.heard.clear()
        assert call.listen(0.4).any()
        call.listen(3.0)
        assert (call.last.state, call.last.holds, call.last.underruns) == (State.ANSWERED, 1, 0)


def test_a_room_that_is_never_still_cannot_silence_a_reply():
    with Call() as call:
        reached(State.SPEAKING, call)
        for _ in range(4):
            call.say(0.02)
            call.quiet(0.05)
        assert call.last.holds == 2
        call.listen(4.0)
        assert call.last.state is State.ANSWERED


@pytest.mark.parametrize("settings", [Settings(barge_in=False), Settings(hold_ms=0)])
def test_who_may_not_interrupt_does_not_hold_the_reply_either(settings):
    with Call(settings) as call:
        reached(State.SPEAKING, call)
        call.say(0.02)
        assert call.session.pull(960).any()
        assert call.last.holds == 0


@pytest.mark.parametrize("state", [State.HEARING, State.PAUSED])
def test_more_speech_before_the_endpoint_is_the_same_turn(state):
    with Call() as call:
        reached(state, call)
        call.say(0.5)
        assert [t.state for t in call.turns] == [State.HEARING]


@pytest.mark.parametrize("state", [State.HEARING, State.PAUSED, State.COMMITTED, State.SPEAKING])
def test_leaving_at_any_time_ends_the_turn_and_the_threads(state):
    before = running_sessions()
    with Call() as call:
        reached(state, call)
        call.session.close()
        call.session.close()
        assert call.last.state is State.INTERRUPTED
        each_turn_ended_once(call)
    deadline = time.monotonic() + 5
    while running_sessions() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert running_sessions() == before


@pytest.mark.parametrize("state", [State.HEARING, State.PAUSED, State.COMMITTED, State.SPEAKING])
def test_a_lost_line_ends_the_turn_and_the_next_call_goes_on(state):
    with Call() as call:
        reached(state, call)
        call.session.hang_up()
        assert call.last.state is State.INTERRUPTED
        assert not call.session.pull(960).any()
        call.quiet(0.3)
        call.ask()
        call.listen(3.0)
        assert call.last.state is State.ANSWERED
        each_turn_ended_once(call)


def test_an_interrupted_reply_is_remembered_as_far_as_it_was_heard():
    with Call(llm=ScriptedLlm(["One two three four five six. Never heard.", "Fine."])) as call:
        call.ask()
        call.listen(0.7)
        call.say(0.5)
        spoken = call.turns[0].spoken
        assert spoken
        assert "Never" not in spoken
        call.quiet(0.15)
        call.quiet(1.0)
        history = [m.text for m in call.engines.llm.asked[-1]]
        assert spoken in history
        assert not any("Never heard" in text for text in history)


def test_a_wrong_cut_in_is_continued_as_one_utterance():
    asr, llm = (
        ScriptedAsr(["The jacket is fine.", "But the zip is broken."]),
        ScriptedLlm(["Glad.", "Sorry to hear that."]),
    )
    with Call(asr=asr, llm=llm) as call:
        call.ask()  # answered too early ...
        call.say(0.5)  # ... and nothing of it was heard
        call.quiet(0.15)
        call.quiet(1.0)
        call.listen(2.0)
        assert llm.asked[-1][-1].text.startswith("The jacket is fine. But the zip is broken.")
        assert not any("Glad" in m.text for m in llm.asked[-1])
        assert [t.heard for t in call.turns] == ["The jacket is fine.", "But the zip is broken."]


def test_a_noise_after_a_cut_in_does_not_lose_the_question():
    with Call(asr=ScriptedAsr(["Where is my order?", ""])) as call:
        call.ask()
        call.say(0.3)  # a cough: the reply stops before anything of it was heard
        call.quiet(1.5)
        call.listen(3.0)
        assert [t.state for t in call.turns] == [State.INTERRUPTED, State.ANSWERED]
        assert call.engines.llm.asked[-1][-1].text.startswith("Where is my order?")


def test_with_barge_in_off_the_reply_is_heard_out():
    with Call(Settings(barge_in=False)) as call:
        reached(State.SPEAKING, call)
        call.say(0.5)
        assert [t.state for t in call.turns] == [State.SPEAKING]
        call.listen(3.0)
        assert call.last.state is State.ANSWERED


# -- engines that fail

BOOM = RuntimeError("boom")
CODED = EngineError(Code.NETWORK, "no network", "plug it in")


@pytest.mark.parametrize("draft", [True, False])
@pytest.mark.parametrize(
    ("engines", "code"),
    [
        ({"asr": ScriptedAsr}, Code.ASR_FAILED),
        ({"llm": ScriptedLlm}, Code.LLM_FAILED),
        ({"tts": ScriptedTts}, Code.TTS_FAILED),
    ],
)
def test_an_engine_that_raises_fails_its_turn_and_the_next_one_works(engines, code, draft):
    (name, make), fine = next(iter(engines.items())), {"asr": "Hi.", "llm": "Yes.", "tts": 0.5}
    for error, expected in ((BOOM, code), (CODED, Code.NETWORK)):
        script = [Step(fine[name], error=error), fine[name]]
        with Call(Settings(draft=draft), **{name: make(script)}, **short_reply(name)) as call:
            call.ask()
            call.listen(0.2)
            assert (call.last.state, call.last.code) == (State.FAILED, expected)
            call.ask()
            call.listen(2.0)
            assert call.last.state is State.ANSWERED
            each_turn_ended_once(call)


def short_reply(besides):
    return {} if besides == "llm" else {"llm": ScriptedLlm(["Yes.", "Yes.", "Yes."])}


@pytest.mark.parametrize(
    ("name", "make", "answer", "code"),
    [
        ("asr", ScriptedAsr, "Hi.", Code.ASR_TIMEOUT),
        ("llm", ScriptedLlm, "Yes.", Code.LLM_TIMEOUT),
        ("tts", ScriptedTts, 0.5, Code.TTS_TIMEOUT),
    ],
)
def test_an_engine_that_hangs_fails_its_turn_and_the_next_one_works(name, make, answer, code):
    release = threading.Event()
    settings = Settings(asr_timeout_s=0.5, llm_timeout_s=0.5, tts_timeout_s=0.5, partial_every_ms=2000)
    engine = make([Step(answer, until=release), answer])
    with Call(settings, **{name: engine}, **short_reply(name)) as call:
        call.say(0.4)
        call.quiet(1.2, settle=False)
        call.until(lambda: call.turns and call.last.ended, "the watchdog ends the turn")
        assert (call.last.state, call.last.code) == (State.FAILED, code)
        call.settle()
        call.ask()
        call.listen(2.0)
        assert call.last.state is State.ANSWERED
        release.set()
        call.settle()
        assert len(call.turns) == 2
        each_turn_ended_once(call)


def test_a_vad_that_raises_fails_one_turn_in_plain_words_and_recovers():
    with Call(vad=ScriptedVad([0.02] * 9 + [Step(0.0, error=BOOM)] + [0.95] * 16 + [0.02] * 200)) as call:
        call.quiet(0.1)
        assert (call.last.state, call.last.code) == (State.FAILED, Code.VAD_FAILED)
        call.say(0.5)
        call.quiet(1.2)
        call.listen(3.0)
        assert call.last.state is State.ANSWERED
        each_turn_ended_once(call)


def test_a_vad_that_always_raises_does_not_flood_the_page_with_failures():
    broken = ScriptedVad([Step(0.0, error=BOOM) for _ in range(1000)])
    with Call(vad=broken) as call:
        call.quiet(3.0)
        assert [t.code for t in call.turns] == [Code.VAD_FAILED]


def test_a_vad_that_hangs_is_left_behind():
    release = threading.Event()
    with Call(vad=ScriptedVad([0.02] * 9 + [Step(0.0, until=release)] + [0.02] * 1000)) as call:
        call.quiet(0.1, settle=False)
        call.until(lambda: call.turns and call.last.ended, "the watchdog gives up on the VAD")
        assert call.last.code is Code.VAD_FAILED
        release.set()
        call.settle()


@pytest.mark.parametrize("step", [Step(0.5, error=BOOM), Step(0.5, until=threading.Event())])
def test_a_turn_model_that_fails_costs_time_not_the_turn(step):
    with Call(turn_model=ScriptedTurnmodel([step])) as call:
        call.say(0.6)
        call.quiet(1.2, settle=False)
        call.until(lambda: call.turns and call.last.state is State.COMMITTED, "the endpoint goes by silence")
        waited = next(e.waited_ms for e in call.session.events()[0] if isinstance(e, Endpointed))
        assert waited == Settings().endpoint_ceiling_ms
        if step.until:
            step.until.set()


def test_a_slow_engine_is_only_slow():
    with Call(llm=ScriptedLlm([Step(("Slow ", "but ", "sure."), each_s=1.0)])) as call:
        call.engines.llm._script._clock = call.clock
        call.say(0.6)
        call.quiet(1.2, settle=False)
        call.until(lambda: call.last.reply == "Slow but sure.", "the reply is complete")
        call.settle()
        call.listen(2.0)
        assert call.last.state is State.ANSWERED


# -- odd replies


@pytest.mark.parametrize(
    ("reply", "code"),
    [("", Code.LLM_EMPTY), ("  ", Code.LLM_EMPTY), ("😀👍", Code.LLM_EMPTY), ("...", Code.LLM_EMPTY)],
)
def test_a_reply_with_nothing_to_say_is_a_coded_failure(reply, code):
    with Call(llm=ScriptedLlm([reply, "Fine."])) as call:
        call.ask()
        assert (call.last.state, call.last.code) == (State.FAILED, code)
        call.ask()
        call.listen(2.0)
        assert call.last.state is State.ANSWERED
        each_turn_ended_once(call)


def test_an_emoji_in_a_reply_is_shown_and_not_spoken():
    with Call(llm=ScriptedLlm(["Sure! 😀 Bye now."])) as call:
        call.ask()
        call.listen(3.0)
        assert call.last.reply == "Sure! 😀 Bye now."
        assert call.last.state is State.ANSWERED


def test_a_model_that_never_stops_is_stopped():
    def forever():
        while True:
            yield "word "

    with Call(Settings(max_tokens=8), llm=ScriptedLlm([forever()])) as call:
        call.ask()
        call.listen(10.0)
        assert call.last.state is State.ANSWERED
        assert len(call.last.reply) < 1000
        assert NoticeCode.REPLY_CUT in [n.code for n in call.session.snapshot().notices]


def test_a_reply_ends_after_its_sentences():
    with Call(Settings(max_sentences=2), llm=ScriptedLlm([("One. ", "Two. ", "Three. ", "Four.")])) as call:
        call.ask()
        call.listen(3.0)
        assert call.engines.tts.spoken == ["One.", "Two."]


def test_a_voice_without_a_sound_is_a_coded_failure():
    with Call(tts=ScriptedTts([0.0, 0.0])) as call:
        call.ask()
        call.listen(0.5)
        assert (call.last.state, call.last.code) == (State.FAILED, Code.TTS_EMPTY)
        each_turn_ended_once(call)


def test_sound_without_words_is_a_false_start():
    with Call(asr=ScriptedAsr([""])) as call:
        call.ask()
        assert (call.last.state, call.last.code) == (State.FAILED, Code.NOTHING_HEARD)
        assert call.last.false_start
        assert call.session.snapshot().false_starts == 1


def test_a_short_word_is_tried_again_with_the_silence_after_it():
    with Call(asr=ScriptedAsr([("", "Hello.")])) as call:
        call.say(0.3)
        call.quiet(1.2)
        call.listen(3.0)
        assert (call.last.state, call.last.heard) == (State.ANSWERED, "Hello.")


# -- what is said of a failure


def test_sound_without_words_is_answered_in_prepared_words_but_not_again_and_again():
    with Call(apologies=True, asr=ScriptedAsr(["", "", "Where is my order?", ""])) as call:
        told = "Sorry, I did not catch that. Could you say it again?"
        for expected in (told, "", None, told):  # after a reply it may be said again
            call.say(0.9)
            call.quiet(1.2)
            before = len(call.heard)
            call.listen(3.0)
            assert np.any(np.concatenate(call.heard[before:])) == (expected != "")
            if expected is not None:
                assert (call.last.code, call.last.apology) == (Code.NOTHING_HEARD, expected)
        each_turn_ended_once(call)


def test_a_cough_gets_no_answer():
    with Call(apologies=True, asr=ScriptedAsr([""])) as call:
        call.say(0.3)
        call.quiet(1.2)
        assert not call.listen(1.0).any()
        assert (call.last.code, call.last.apology) == (Code.NOTHING_HEARD, "")


def test_a_broken_model_is_told_aloud_and_the_caller_may_cut_in():
    with Call(apologies=True, llm=ScriptedLlm([RuntimeError("no memory"), "At nine."])) as call:
        call.ask()
        assert call.listen(0.1).any()
        assert (call.last.code, call.last.apology) == (
            Code.LLM_FAILED, "Sorry, something went wrong on our side. Please try again.",
        )  # fmt: skip
        call.say(0.6)
        call.heard.clear()
        assert not call.listen(0.5).any()  # silenced by the caller's voice
        call.quiet(1.2)
        call.listen(2.0)
        assert call.last.state is State.ANSWERED
        each_turn_ended_once(call)


def test_without_apologies_a_failure_is_only_read():
    with Call(apologies=False, llm=ScriptedLlm([RuntimeError("no memory")])) as call:
        call.ask()
        assert not call.listen(1.0).any()
        assert call.last.apology == ""


# -- what needs no model


@pytest.mark.parametrize(
    ("said", "reply"),
    [
        ("Thanks, that is all I needed.", "Thank you for calling. Goodbye."),
        ("I want to speak with a manager.", "Let me pass you on to a colleague."),
    ],
)
def test_a_farewell_and_the_wish_for_a_person_are_answered_out_of_the_cache(said, reply):
    llm = ScriptedLlm(["The model's own."])
    with Call(openers=True, asr=ScriptedAsr([said, said]), llm=llm) as call:
        call.ask()
        call.listen(3.0)
        assert (call.last.state, call.last.reply, call.last.cached) == (State.ANSWERED, reply, True)
        assert not llm.asked
        call.ask()  # the same words again: now the model thinks of others
        call.listen(3.0)
        assert call.last.reply.endswith("The model's own.")
        each_turn_ended_once(call)


def test_without_prepared_words_the_model_says_goodbye():
    with Call(asr=ScriptedAsr(["Goodbye."]), llm=ScriptedLlm(["So long."])) as call:
        call.ask()
        call.listen(3.0)
        assert (call.last.reply, call.last.cached) == ("So long.", False)


# -- odd input


def test_silence_for_a_minute_is_told_and_nothing_else_happens():
    with Call() as call:
        call.quiet(60.5)
        assert call.turns == ()
        assert [n.code for n in call.session.snapshot().notices] == [NoticeCode.SILENCE]


def test_noise_alone_starts_no_turn():
    with Call(vad=ScriptedVad([0.1] * 400)) as call:
        call.feed(call.rng.normal(0, 0.05, 16000 * 10))
        assert call.turns == ()


def test_a_ten_minute_monologue_is_capped_again_and_again():
    with Call(Settings(max_utterance_s=30)) as call:
        call.say(65.0)
        assert len(call.turns) >= 2
        assert NoticeCode.MONOLOGUE_CAPPED in [n.code for n in call.session.snapshot().notices]
        call.quiet(1.5)
        call.listen(3.0)
        each_turn_ended_once(call)


def test_broken_samples_are_silence_and_told_once():
    with Call() as call:
        bad = np.full(3200, np.nan, np.float32)
        bad[::7] = np.inf
        call.feed(bad)
        assert call.turns == ()
        assert [n.code for n in call.session.snapshot().notices] == [NoticeCode.AUDIO_REPAIRED]
        call.ask()
        call.listen(3.0)
        assert call.last.state is State.ANSWERED


def test_clipped_audio_is_told():
    with Call() as call:
        call.feed(np.sign(np.sin(np.arange(8000) * 0.1)) * 1.7)
        assert NoticeCode.AUDIO_CLIPPED in [n.code for n in call.session.snapshot().notices]


def test_empty_and_misshapen_chunks_are_ignored():
    with Call() as call:
        call.session.hear(Chunk(np.zeros(0, np.float32), call.clock.now()))
        call.session.hear(Chunk(np.zeros((2, 160), np.float32), call.clock.now()))
        call.ask()
        call.listen(3.0)
        assert call.last.state is State.ANSWERED


def test_a_clip_of_fifty_milliseconds_starts_nothing():
    with Call() as call:
        call.say(0.05)
        call.quiet(1.0)
        assert call.turns == ()


def test_a_full_capture_queue_drops_the_oldest_and_is_told():
    release = threading.Event()
    with Call(vad=ScriptedVad([0.02] * 9 + [Step(0.02, until=release)] + [0.02] * 1000)) as call:
        for _ in range(300):
            call.session.hear(Chunk(np.zeros(160, np.float32), call.clock.now()))
        assert call.session.snapshot().dropped_chunks > 0
        release.set()
        call.settle()
        assert NoticeCode.CAPTURE_BEHIND in [n.code for n in call.session.snapshot().notices]


def test_a_long_reply_waits_for_the_voice_and_loses_nothing():
    sentences = [f"Sentence number {k}. " for k in range(30)]
    with Call(Settings(max_sentences=8, max_tokens=512), llm=ScriptedLlm([sentences])) as call:
        call.ask()
        call.listen(12.0)
        assert call.last.state is State.ANSWERED
        assert call.last.underruns == 0
        assert sum("number" in p or "Sentence" in p for p in call.engines.tts.spoken) >= 8


# -- openers


def asked_of_a_slow_model(call, gate):
    """One question whose reply is not ready at the endpoint; heard out."""
    call.say(0.6)
    call.quiet(1.2, settle=False)
    call.until(lambda: call.last.cached, "prepared words begin the reply")
    gate.set()
    call.settle()
    call.listen(4.0)


def test_an_opener_bridges_what_is_not_ready_and_is_marked():
    gates = threading.Event(), threading.Event()
    llm = ScriptedLlm([Step("It is coming.", until=gates[0]), Step("At nine.", until=gates[1])])
    with Call(openers=True, asr=ScriptedAsr(["Where is my order?", "When do you open?"]), llm=llm) as call:
        prepared = list(call.engines.tts.spoken)
        assert "Let me see." in prepared
        asked_of_a_slow_model(call, gates[0])
        first = call.last
        assert first.reply == first.spoken == "Let me see. It is coming."
        asked_of_a_slow_model(call, gates[1])
        assert call.last.reply == "Good question. At nine."  # never the same twice running
        assert call.engines.tts.spoken == [*prepared, "It is coming.", "At nine."]
        remembered = [m.text for m in llm.asked[-1]]
        assert "It is coming." in remembered
        each_turn_ended_once(call)


def test_a_reply_that_is_ready_needs_no_opener():
    with Call(openers=True, asr=ScriptedAsr(["Where is my order?"]), llm=ScriptedLlm(["It is coming."])) as call:
        call.say(0.6)
        call.quiet(0.06)  # the draft is made before the endpoint
        call.quiet(1.2)
        call.listen(3.0)
        assert call.last.reply == "It is coming."
        assert call.last.drafted
        assert not call.last.cached


# -- drafts that begin while the caller speaks


def test_a_draft_begun_early_stands_while_the_same_fact_fits():
    asr = ScriptedAsr([("Where is my order", "where is my order, um")])
    with Call(early=True, asr=asr, llm=ScriptedLlm(["It is coming."])) as call:
        call.say(0.45)
        call.say(0.15)  # the draft's threads have had their time before the last word ends
        assert call.last.state is State.HEARING
        assert call.session.snapshot().drafts == 1
        assert not call.session.pull(960).any()  # nothing leaves before the endpoint
        call.quiet(0.15)
        call.quiet(1.0)
        call.listen(3.0)
        assert (call.last.reply, call.last.heard) == ("It is coming.", "where is my order, um")
        marks = call.last.timeline.marks
        assert marks[Mark.FIRST_AUDIO] < marks[Mark.SPEECH_END] < marks[Mark.ENDPOINT] < marks[Mark.RELEASED]
        seen = call.session.snapshot()
        assert (seen.drafts, seen.drafts_dropped, seen.draft_hits) == (1, 0, 1)
        each_turn_ended_once(call)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("Where is", "Where is my order?"),  # another fact
        ("Can I return this", "Can I not return this?"),  # the same one, turned round
    ],
)
def test_a_draft_begun_early_is_dropped_when_the_meaning_changes(first, then):
    llm = ScriptedLlm(["Wrong.", "Right."])
    settings = Settings(partial_every_ms=500)  # one partial, and the draft it begins is at work before the pause
    with Call(settings, early=True, asr=ScriptedAsr([(first, then)]), llm=llm) as call:
        call.ask()
        call.listen(3.0)
        assert call.last.reply == call.last.spoken == "Right."
        seen = call.session.snapshot()
        assert (seen.drafts, seen.drafts_dropped, seen.draft_hits) == (2, 1, 1)
        assert [m[-1].text.startswith(then) for m in llm.asked] == [False, True]
        llm.done()
        each_turn_ended_once(call)


def test_a_draft_begun_early_outlives_a_pause_inside_the_question():
    asr = ScriptedAsr([("I want to return", "I want to return,", "I want to return, the shoes.")])
    with Call(early=True, asr=asr, llm=ScriptedLlm(["Yes."]), turn_model=ScriptedTurnmodel([0.0, 1.0])) as call:
        call.say(0.4)
        call.quiet(0.3)
        call.say(0.25)
        call.quiet(0.15)
        call.quiet(0.5)
        call.listen(2.0)
        assert (call.last.reply, call.last.drafts) == ("Yes.", 1)
        each_turn_ended_once(call)


def test_a_language_model_that_does_not_keep_pace_drafts_at_the_pause():
    with Call(early=True, asr=ScriptedAsr(["Where is my order?"])) as call:
        assert call.session.keeps_pace()
        call.session._weighing_s = 0.4  # longer than the partials are apart
        assert not call.session.keeps_pace()
        call.session.keeps_pace = lambda: False
        call.say(0.4)
        assert call.session.snapshot().drafts == 0
        call.quiet(0.06)
        assert call.session.snapshot().drafts == 1


class Doubtful(ScriptedLlm):
    """Weighs words only when told to, so that the caller can go on meanwhile."""

    def __init__(self, *script):
        super().__init__(*script)
        self.weighed = threading.Event()

    def completeness(self, opening, said):
        self.weighed.wait()
        return 0.5


def test_a_reply_that_gets_lost_on_its_way_is_told():
    with Call() as call:
        call.session.reply = lambda request: None  # a defect: what was asked for never reaches the model
        call.ask()
        assert call.last.state is State.COMMITTED
        call.until(lambda: call.last.ended, "the watchdog finds it")
        assert (call.last.state, call.last.code) == (State.FAILED, Code.INTERNAL)
        each_turn_ended_once(call)


def test_a_weight_that_comes_too_late_does_not_take_the_draft_with_it():
    asr = ScriptedAsr([("I want to return,", "I want to return, the shoes.")])
    llm = Doubtful(["Yes."])
    settings = Settings(partial_every_ms=2000)
    with Call(settings, early=True, asr=asr, llm=llm, turn_model=ScriptedTurnmodel([0.0, 1.0])) as call:
        call.say(0.4)
        call.quiet(0.1, settle=False)
        call.until(lambda: call.session.snapshot().drafts == 1, "a draft begins at the pause")
        call.say(0.3, settle=False)
        call.until(lambda: call.last.state is State.HEARING, "the caller goes on")
        llm.weighed.set()
        call.settle()
        call.quiet(0.15)
        call.quiet(0.6)
        call.listen(2.0)
        assert (call.last.state, call.last.reply, call.last.drafts) == (State.ANSWERED, "Yes.", 1)
        each_turn_ended_once(call)


def test_a_draft_begun_early_that_failed_is_tried_again_with_the_whole_question():
    llm = ScriptedLlm([Step("Yes.", error=BOOM), "Yes."])
    with Call(early=True, asr=ScriptedAsr(["Where is my order?"]), llm=llm) as call:
        call.ask()
        call.listen(3.0)
        assert call.last.state is State.ANSWERED
        llm.done()
        each_turn_ended_once(call)


# -- settings on a live session


class Attentive(ScriptedAsr):
    """Remembers what it was asked to listen with."""

    def __init__(self):
        super().__init__()
        self.languages = []

    def listen(self, language=""):
        self.languages.append(language)
        return super().listen(language)


class Styled(ScriptedTts):
    """Remembers how it was asked to speak."""

    def __init__(self):
        super().__init__()
        self.styles = []

    def speak(self, phrase, style, cancel):
        self.styles.append(style)
        return super().speak(phrase, style, cancel)


def test_cantonese_is_listened_to_worded_and_spoken_from_the_next_phrase_on():
    asr, tts = Attentive(), Styled()
    with Call(Settings(scenario="shop-zh"), asr=asr, tts=tts) as call:
        call.ask()
        call.listen(3.0)
        call.session.apply(call.session.settings.changed(manner="cantonese", voice="anna"))
        call.settle()
        call.ask()
        call.listen(3.0)
        assert asr.languages == ["zh", "yue"]
        assert (tts.styles[0].manner, tts.styles[-1].manner, tts.styles[-1].voice) == ("", "cantonese", "anna")
        systems = [m[0].text for m in call.engines.llm.asked]
        assert "粤语" not in systems[0]
        assert "粤语" in systems[-1]
        assert len(call.engines.llm.asked[-1]) > len(call.engines.llm.asked[0])  # the conversation goes on


def test_a_manner_of_speaking_chinese_leaves_an_english_scenario_alone():
    asr = Attentive()
    with Call(Settings(manner="cantonese"), asr=asr) as call:
        call.ask()
        assert asr.languages == ["en"]
        assert "粤语" not in call.engines.llm.asked[0][0].text


def test_another_scenario_starts_afresh():
    with Call() as call:
        call.ask()
        call.listen(3.0)
        before = call.engines.llm.warmed[-1]
        assert "Hello there." in str(before)  # ready for the next question, with this one behind it
        call.session.apply(call.session.settings.changed(scenario="shop-zh"))
        call.settle()
        assert call.engines.llm.warmed[-1] != before
        call.ask()
        assert not any("Hello there." in m.text for m in call.engines.llm.asked[-1][:-1])


def test_a_slider_acts_on_the_next_pause():
    with Call() as call:
        call.session.apply(Settings(endpoint_floor_ms=100))
        call.say(0.5)
        call.quiet(0.08)
        call.quiet(0.5)
        assert next(e.waited_ms for e in call.session.events()[0] if isinstance(e, Endpointed)) <= 110


def test_two_visitors_on_the_same_engines_do_not_mix():
    with Call(asr=ScriptedAsr(["one", "two"]), llm=ScriptedLlm(["First.", "Second."])) as call:
        other = Call.__new__(Call)
        other.__dict__.update(call.__dict__)
        other.session = type(call.session)(call.engines, call.session.settings, call.clock).start()
        other.heard = []
        try:
            other.quiet(0.3)
            call.ask()
            other.ask()
            call.listen(2.0)
            other.listen(2.0)
            assert [(t.heard, t.reply) for t in call.turns] == [("one", "First.")]
            assert [(t.heard, t.reply) for t in other.turns] == [("two", "Second.")]
        finally:
            other.session.close()


class MoodyAsr:
    """Asked while the caller speaks it lacks a word; at a pause it has it, and says how the caller sounded."""

    name = "moody"

    def warm_up(self): ...

    def listen(self, language=""):
        return MoodyHearing()


class MoodyHearing:
    emotion = ""

    def feed(self, samples): ...

    def partial(self):
        return "Where is"

    def settled(self):
        self.emotion = "happy"
        return "Where is it?"

    finish = settled


def test_a_pause_is_told_to_the_recogniser_and_what_it_hears_in_the_voice_reaches_the_outside():
    with Call(asr=MoodyAsr()) as call:
        call.say(0.8)
        assert (call.last.heard, call.last.emotion) == ("Where is", "")
        call.quiet(0.15)
        assert (call.last.heard, call.last.emotion) == ("Where is it?", "happy")
        call.quiet(1.0)
        utterance = next(e for e in call.session.events()[0] if isinstance(e, Utterance))
        assert (utterance.text, utterance.emotion) == ("Where is it?", "happy")
