"""The browser bench: its analysis on made-up recordings, and once through headless Chromium."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.browser.beep_session import BeepSession, reply_beep
from pipeline.browser.beeps import BeepResult, analyse, beep_track, beeps
from pipeline.browser.driver import Browser, Capture, chromium, first_sample_times
from pipeline.browser.mic import MIC_RATE, MicClip, find_spoken, make_mic_wav
from pipeline.browser.recording import Recording, first_sound
from pipeline.browser.server import Server
from pipeline.clock import ManualClock
from pipeline.ports import Chunk

BLOCK = 480  # samples: what Chromium hands over


def recording(pcm: Any, begin: float = 1000.0) -> Recording:
    """`pcm` as 10 ms blocks, the first sample at `begin` seconds."""
    lengths = [BLOCK] * (pcm.size // BLOCK)
    times = begin + np.arange(len(lengths)) * BLOCK / MIC_RATE
    return Recording.of(pcm[: BLOCK * len(lengths)], MIC_RATE, lengths, times)


def beep_at(seconds: list[float], total: float = 5.0) -> Any:
    pcm = np.zeros(round(total * MIC_RATE), np.int16)
    for at in seconds:
        first = round(at * MIC_RATE)
        pcm[first : first + 2880] = 20_000
    return pcm


def speech(seconds: float, seed: int) -> Any:
    """Something that correlates with itself only: 16 kHz noise with an envelope."""
    rng = np.random.default_rng(seed)
    n = round(seconds * 16_000)
    envelope = 0.2 + 0.8 * np.abs(np.sin(np.arange(n) / 1600))
    return (0.2 * envelope * rng.standard_normal(n)).astype(np.float32)


def test_a_sample_s_time_is_its_block_s_and_its_place_in_it() -> None:
    times = np.array([10.0, 10.03, 10.04])  # a gap after the first block
    r = Recording.of(np.zeros(1440, np.int16), MIC_RATE, [480, 480, 480], times)
    assert [r.time_of(s) for s in (0, 479, 480, 960)] == pytest.approx([10.0, 10.0 + 479 / 48_000, 10.03, 10.04])
    with pytest.raises(IndexError):
        r.time_of(1440)


def test_sound_begins_after_quiet_only_and_is_looked_for_after_the_question() -> None:
    r = recording(beep_at([0.5, 0.7, 2.0]))
    assert [s / MIC_RATE for s in r.onsets()] == pytest.approx([0.5, 2.0], abs=1e-3)
    assert first_sound(r, after=1001.0) == pytest.approx(1002.0, abs=1e-3)
    assert first_sound(r, after=1002.5) is None
    assert recording(np.zeros(4800, np.int16)).onsets() == []
    assert r.between(1002.0, 1002.05).any()
    assert r.between(2000.0, 2001.0).size == 0


def test_block_stamps_of_either_origin_are_put_on_python_s_clock() -> None:
    arrived = np.array([900.01, 900.02])
    from_page, from_boot = np.array([0.009, 0.019]), np.array([900.009, 900.019])
    for stamps in (from_page, from_boot):
        assert first_sample_times(stamps, arrived, offset=900.0) == pytest.approx([900.009, 900.019])


def test_each_clip_s_true_end_is_found_in_a_delayed_noisy_recording(tmp_path: Path) -> None:
    clips = [MicClip(speech(1.5, 1), 1.5), MicClip(speech(2.0, 2), 1.7), MicClip(speech(0.6, 3), 0.6)]
    wav = make_mic_wav(clips, gap_s=1.0, path=tmp_path / "mic.wav", lead_s=2.0)
    assert wav.ends_s == pytest.approx([3.5, 6.2, 7.8], abs=1e-3)
    with wave.open(str(wav.path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (MIC_RATE, 1, wav.pcm.size)
    noise = np.random.default_rng(9).normal(0, 60, wav.pcm.size)
    missed = round(0.777 * MIC_RATE)  # the capture began after the wav did
    heard = recording((wav.pcm * 0.6 + noise).astype(np.int16)[missed:])
    for spoken, end in zip(find_spoken(heard, wav), wav.ends_s, strict=True):
        assert spoken is not None
        assert spoken.score > 0.9
        assert spoken.ended_at == pytest.approx(1000.0 + end - 0.777, abs=0.002)


def test_clips_are_found_where_the_recording_lost_blocks(tmp_path: Path) -> None:
    clips = [MicClip(speech(1.5, n), 1.5) for n in range(4)]
    wav = make_mic_wav(clips, gap_s=3.0, path=tmp_path / "mic.wav", lead_s=1.0)
    whole = recording(wav.pcm)
    # In every pause more is lost than the search looks to either side.
    kept = np.ones(whole.firsts.size, bool)
    for end in wav.ends_s:
        kept &= (whole.times < 1000.0 + end + 0.3) | (whole.times > 1000.0 + end + 2.3)
    size = int(whole.firsts[1])
    pcm = np.concatenate([wav.pcm[f : f + size] for f in whole.firsts[kept]])
    lossy = Recording.of(pcm, MIC_RATE, [size] * int(kept.sum()), whole.times[kept])
    for spoken, end in zip(find_spoken(lossy, wav), wav.ends_s, strict=True):
        assert spoken is not None
        assert spoken.ended_at == pytest.approx(1000.0 + end, abs=0.002)


def test_a_time_s_sample_is_the_one_recorded_then_or_the_nearest() -> None:
    r = Recording.of(np.zeros(1440, np.int16), MIC_RATE, [480] * 3, np.array([10.0, 10.01, 10.5]))
    assert [r.sample_at(at) for at in (9.0, 10.005, 10.2, 10.505, 99.0)] == [0, 240, 960, 1200, 1440]
    assert r.time_of(r.sample_at(10.505)) == pytest.approx(10.505)


def test_a_clip_that_was_not_recorded_is_not_found(tmp_path: Path) -> None:
    wav = make_mic_wav(
        [MicClip(speech(1.5, 1), 1.5), MicClip(speech(1.5, 2), 1.5)], gap_s=2.0, path=tmp_path / "mic.wav", lead_s=1.0
    )
    first, second = find_spoken(recording(wav.pcm[: 4 * MIC_RATE]), wav)
    assert first is not None
    assert second is None


def test_a_recording_that_began_after_the_first_clip_is_dated_by_another(tmp_path: Path) -> None:
    clips = [MicClip(speech(1.5, n), 1.5) for n in range(3)]
    wav = make_mic_wav(clips, gap_s=4.0, path=tmp_path / "mic.wav", lead_s=1.0)
    late = 4.0
    first, *rest = find_spoken(recording(wav.pcm[round(late * MIC_RATE) :]), wav)
    assert first is None or first.score < 0.3
    for spoken, end in zip(rest, wav.ends_s[1:], strict=True):
        assert spoken is not None
        assert spoken.ended_at == pytest.approx(1000.0 + end - late, abs=0.002)


def test_a_beep_is_answered_once_and_written_down(tmp_path: Path) -> None:
    clock = ManualClock()
    session = BeepSession(tmp_path / "log", clock)
    loud = np.full(160, 0.5, np.float32)
    session.hear(Chunk(np.zeros(160, np.float32), clock.now()))
    session.hear(Chunk(loud, clock.now()))
    session.hear(Chunk(loud, clock.now()))
    answer = np.concatenate([session.pull(960) for _ in range(4)])
    assert (answer[: reply_beep().size] == reply_beep()).all()
    assert not answer[reply_beep().size :].any()
    session.close()
    session.slot(1.0)  # the transport may still call for a moment
    assert [line.split('"')[3] for line in (tmp_path / "log").read_text().splitlines()] == ["heard", "pulled"]


def test_the_way_of_a_beep_is_split_and_sums_up() -> None:
    capture = Capture(recording(beep_at([1.0, 2.0, 3.0])), recording(beep_at([1.06, 3.09])), 0.2, {})
    written = [
        {"what": what, "at": 1000.0 + at}
        for at, what in ((1.012, "heard"), (1.02, "pulled"), (2.01, "heard"), (3.01, "heard"), (3.03, "pulled"))
    ]
    result = analyse(capture, written, 3, "tuned", 20)
    assert [(b.total, b.uplink, b.server, b.downlink) for b in result.beeps] == [
        pytest.approx((60, 12, 8, 40), abs=0.1),
        pytest.approx((90, 10, 20, 60), abs=0.1),
    ]
    assert result.as_dict()["answered"] == 2
    assert result.as_dict()["summary"]["total_ms"]["p50"] == pytest.approx(75, abs=0.2)
    assert "2 of 3" in result.table()


def test_the_track_holds_the_beeps_asked_for() -> None:
    assert len(recording(beep_track(5)).onsets()) == 5


needs_chromium = pytest.mark.skipif(chromium() is None, reason="no Chromium on the path")


@pytest.mark.browser
@needs_chromium
def test_beeps_come_back_through_a_real_call() -> None:
    result: BeepResult = beeps(6, "tuned")
    assert result.sent == 6
    assert len(result.beeps) >= 5
    for beep in result.beeps:
        assert beep.total == pytest.approx(beep.uplink + beep.server + beep.downlink, abs=0.1)
        assert min(beep.uplink, beep.server, beep.downlink) >= 0.0
    assert result.percentiles()["total"].p50 < 800  # a loose bound: it came back at all
    assert result.stats["outbound"]["packets"] > 500  # 10 ms packets were agreed on


@pytest.mark.browser
@needs_chromium
def test_a_refused_microphone_is_told_to_the_page(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(
        "from pipeline.settings import Settings\n"
        "from pipeline.ui.webrtc import call\n"
        "import streamlit as st\n"
        "state = call(lambda: 1 / 0, Settings())\n"
        "st.write(f'phase={state.phase} reason={state.reason}')\n"
    )
    with Server(app, tmp_path / "log") as server, Browser(allow_microphone=False) as browser:
        browser.open(server.url)
        browser.press_start()
        browser.page.get_by_text("phase=failed reason=refused").wait_for(timeout=20_000)
