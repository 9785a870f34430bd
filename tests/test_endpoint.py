"""The endpointer in audio time: no sleep, no clock."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.endpoint import NEXT, Ended, Endpointer, Heard, Paused, Phase, Resumed, Rule, Started, Stirred

RULE = Rule(start_ms=60, pause_ms=60, floor_ms=200, ceiling_ms=900)
LOUD, SOFT = (-20.0, 0.95), (-65.0, 0.02)


def run(ear, frames, rule=RULE):
    return [signal for level, p in frames for signal in ear.hear(level, p, rule)]


def test_a_turn_from_start_to_end():
    ear = Endpointer()
    signals = run(ear, [SOFT] * 30 + [LOUD] * 50 + [SOFT] * 95)
    assert signals == [Started(30), Paused(79), Ended(79, 900, capped=False)]


def test_the_end_is_dated_by_energy_while_the_vad_still_says_speech():
    ear = Endpointer()
    lagging = [(-65.0, 0.9)] * 12 + [SOFT] * 100
    signals = run(ear, [SOFT] * 30 + [LOUD] * 50 + lagging)
    assert signals[1] == Paused(79)


def test_confidence_shortens_the_wait_and_a_resumed_voice_forgets_it():
    ear = Endpointer()
    run(ear, [SOFT] * 30 + [LOUD] * 50 + [SOFT] * 10)
    ear.expect(1.0)
    assert run(ear, [SOFT] * 10) == [Ended(79, 200, capped=False)]

    run(ear, [LOUD] * 50 + [SOFT] * 10)
    ear.expect(1.0)
    assert run(ear, [LOUD] * 3)[0].__class__ is Resumed
    signals = run(ear, [LOUD] * 20 + [SOFT] * 60)
    assert [type(s) for s in signals] == [Paused]  # 600 ms: back to the ceiling


def test_a_caller_answered_too_early_is_heard_sooner_than_a_new_one():
    def frames_to_start(pause, level=-20.0, p=0.95):
        ear = Endpointer()
        run(ear, [SOFT] * 30 + [LOUD] * 50 + [SOFT] * 95)  # ends 90 frames into the silence
        run(ear, [SOFT] * pause)
        found = [i for i in range(1, 30) if any(isinstance(s, Started) for s in run(ear, [(level, p)]))]
        return found[0] if found else None

    assert frames_to_start(20) == 3
    assert frames_to_start(20, p=0.3) == 3  # what would do to go on does here
    assert frames_to_start(400) == 6
    assert frames_to_start(20, level=-40.0) == 6  # as soft as an echo: no sooner than anybody
    assert frames_to_start(400, p=0.3) is None


def test_perhaps_a_voice_is_told_at_once_and_once_a_sound():
    ear = Endpointer()
    run(ear, [SOFT] * 30 + [LOUD] * 50 + [SOFT] * 95)
    end = ear.frame
    assert run(ear, [(-20.0, 0.0)] * 5 + [SOFT] * 10) == [Stirred(end + 1)]  # as loud as the caller
    assert run(ear, [(-40.0, 0.1)] * 2 + [SOFT] * 10) == [Stirred(end + 16)]  # softer, but the VAD has a doubt
    assert run(ear, [(-40.0, 0.0)] * 20) == []  # the room


def test_before_anybody_has_spoken_nothing_stirs():
    assert run(Endpointer(), [SOFT] * 30 + [LOUD] * 3 + [SOFT] * 30) == []


def test_a_click_neither_starts_a_turn_nor_undoes_a_pause():
    ear = Endpointer()
    assert run(ear, [SOFT] * 30 + [LOUD] * 5 + [SOFT] * 30) == []
    signals = run(ear, [LOUD] * 50 + [SOFT] * 40 + [LOUD] * 2 + [SOFT] * 60)
    assert [type(s) for s in signals] == [Started, Paused, Ended]


def test_steady_noise_is_no_speech_whatever_its_level():
    ear = Endpointer()
    assert run(ear, [(-35.0, 0.05)] * 500) == []


def test_noise_the_vad_takes_for_speech_ends_when_the_vad_does():
    ear = Endpointer()
    signals = run(ear, [SOFT] * 30 + [(-30.0, 0.8)] * 40 + [(-30.0, 0.05)] * 100)
    assert [type(s) for s in signals] == [Started, Paused, Ended]


def test_speech_in_noise_ends_where_the_voice_falls_to_the_noise():
    ear = Endpointer()
    noise = (-38.0, 0.03)
    signals = run(ear, [noise] * 100 + [(-18.0, 0.95)] * 60 + [(-38.0, 0.9)] * 10 + [noise] * 100)
    assert signals[1] == Paused(159)


def test_a_monologue_is_capped():
    ear = Endpointer()
    rule = Rule(longest_s=5.0)
    signals = run(ear, [LOUD] * 1200, rule)
    assert [s.capped for s in signals if isinstance(s, Ended)] == [True, True]


def test_the_wait_is_linear_and_bounded():
    assert RULE.wait_ms(None) == RULE.wait_ms(0.0) == RULE.wait_ms(-1) == 900
    assert RULE.wait_ms(1.0) == RULE.wait_ms(2.0) == 200
    assert RULE.wait_ms(0.45) == 550
    assert RULE.wait_ms(0.9) == 200


@given(st.lists(st.tuples(st.floats(-100, 0), st.floats(0, 1)), max_size=600), st.sampled_from([None, 0.0, 0.5, 1.0]))
def test_signals_always_form_whole_turns(frames, confidence):
    ear, phase = Endpointer(), Phase.IDLE
    follows = {
        (Phase.IDLE, Started): Phase.SPEAKING,
        (Phase.SPEAKING, Paused): Phase.PAUSED,
        (Phase.SPEAKING, Ended): Phase.IDLE,
        (Phase.PAUSED, Resumed): Phase.SPEAKING,
        (Phase.PAUSED, Ended): Phase.IDLE,
    }
    for level, p in frames:
        for signal in ear.hear(level, p, RULE):
            phase = follows[phase, type(signal)]
            if phase is Phase.PAUSED and confidence is not None:
                ear.expect(confidence)
        assert ear.phase is phase


def test_the_table_names_every_way_out_of_every_phase():
    assert {phase for phase, _ in NEXT} == set(Phase)
    assert {heard for _, heard in NEXT} == set(Heard)
