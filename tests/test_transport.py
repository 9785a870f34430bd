"""The transport without a browser: order, pace, codecs, SDP, what is installed, one line's life."""

from __future__ import annotations

import asyncio
import fractions
import json
import queue
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.clock import ManualClock, SystemClock
from pipeline.errors import Code, TurnaroundError
from pipeline.settings import Settings
from pipeline.transport import codecs, sdp
from pipeline.transport.capture import Capture
from pipeline.transport.install import TESTED, Patch, Switch, check_versions, install, keep_call_across_runs
from pipeline.transport.jitter import SEQUENCES, AudioJitterBuffer, FrameRun, InOrder, jitter_buffer
from pipeline.transport.line import DEAD_AFTER_S, Line
from pipeline.transport.loop import InlineLoop
from pipeline.transport.track import STALL_S, PacedTrack, Pacer

STARTS = st.integers(0, SEQUENCES - 1)


def released(arrivals: list[int], patience: int = 2) -> list[int]:
    order: InOrder[int] = InOrder(patience)
    return [item for sequence in arrivals for item in order.add(sequence % SEQUENCES, sequence)]


# -- jitter


@given(STARTS, st.integers(1, 300))
def test_a_stream_in_order_is_released_at_once(start: int, n: int) -> None:
    order: InOrder[int] = InOrder()
    for sequence in range(start, start + n):
        assert order.add(sequence % SEQUENCES, sequence) == [sequence]


@given(STARTS, st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.booleans()), min_size=1, max_size=200))
def test_loss_reordering_and_duplicates_leave_an_increasing_sequence(
    start: int, fates: list[tuple[bool, int, bool]]
) -> None:
    """Whatever the network does: in order, nothing twice, nothing made up, across the wrap-around too."""
    slots: list[tuple[int, int]] = []
    for index, (lost, delay, twice) in enumerate(fates):
        if not lost or index == 0:
            slots.append((index + (delay if index else 0), start + index))
            if twice:
                slots.append((index + delay + 1, start + index))
    arrivals = [sequence for _, sequence in sorted(slots)]
    out = released(arrivals)
    assert out == sorted(set(out))
    assert set(out) <= set(arrivals)


@given(STARTS, st.integers(1, 50), st.integers(1, 40))
def test_a_hole_is_skipped_when_two_later_packets_wait(start: int, before: int, hole: int) -> None:
    order: InOrder[int] = InOrder()
    for sequence in range(start, start + before):
        order.add(sequence % SEQUENCES, sequence)
    first = start + before + hole
    assert order.add(first % SEQUENCES, first) == []
    assert order.add((first + 1) % SEQUENCES, first + 1) == [first, first + 1]
    assert order.counts.lost == hole
    assert order.add((first + 2) % SEQUENCES, first + 2) == [first + 2], "and nothing is held from then on"


@given(STARTS)
def test_neighbours_swapped_are_put_right_without_loss(start: int) -> None:
    arrivals = [start, start + 2, start + 1, start + 3, start + 5, start + 4]
    assert released(arrivals) == [start + i for i in range(6)]


def test_a_packet_after_its_hole_was_skipped_is_dropped() -> None:
    order: InOrder[int] = InOrder()
    assert [order.add(s, s) for s in (1, 3, 4, 2)] == [[1], [], [3, 4], []]
    assert (order.counts.lost, order.counts.late) == (1, 1)


@given(STARTS, st.integers(100, SEQUENCES // 2 - 1), st.integers(3, 20))
def test_a_stream_that_starts_anew_far_behind_is_followed(start: int, jump: int, n: int) -> None:
    order: InOrder[int] = InOrder()
    order.add(start, 0)
    again = (start + 1 - jump) % SEQUENCES
    out = [item for i in range(n) for item in order.add((again + i) % SEQUENCES, i)]
    assert out == list(range(n))


def packet(sequence: int, timestamp: int, payload: bytes = b"x") -> Any:
    return SimpleNamespace(sequence_number=sequence, timestamp=timestamp, _data=payload)


def test_the_buffer_hands_a_run_of_frames_with_their_own_timestamps() -> None:
    buffer = AudioJitterBuffer()
    assert buffer.add(packet(7, 7000))[1] is not None
    assert buffer.add(packet(9, 8920, b"c")) == (False, None)
    picture_lost, run = buffer.add(packet(8, 7960, b"b"))
    assert not picture_lost
    assert isinstance(run, FrameRun)
    run.timestamp -= 7000  # what aiortc's mapper does to it
    assert [(f.timestamp, f.data) for f in run.frames()] == [(960, b"b"), (1920, b"c")]


def test_video_keeps_the_library_s_buffer() -> None:
    assert type(jitter_buffer(512, is_video=True)).__name__ == "JitterBuffer"
    assert isinstance(jitter_buffer(16, 4), AudioJitterBuffer)


# -- pace


@given(st.lists(st.floats(0.0, 0.019), min_size=1, max_size=50), st.sampled_from([480, 960]))
def test_frames_are_due_on_a_grid_however_late_each_was(lates: list[float], samples: int) -> None:
    pacer, now = Pacer(samples), 5.0
    assert pacer.wait(now) == 0.0
    for index, late in enumerate(lates, 1):
        due = 5.0 + index * samples / 48_000
        wait = pacer.wait(now)
        assert wait == pytest.approx(max(0.0, due - now), abs=1e-9)
        now = max(now + wait, due) + late
        assert pacer.woke(now) == pytest.approx(now - due, abs=1e-6)
        assert pacer.pts == index * samples


@given(st.floats(STALL_S + 0.001, 30.0), st.sampled_from([480, 960]))
def test_after_a_stall_the_media_time_jumps_and_the_next_frame_waits_for_its_slot(stall: float, samples: int) -> None:
    pacer = Pacer(samples)
    pacer.wait(0.0)
    pacer.wait(0.0)
    now = samples / 48_000 + stall
    pacer.woke(now)
    assert pacer.pts % samples == 0
    assert 0.0 <= pacer.wait(now) <= samples / 48_000 + 1e-6, "no burst of frames that catch up"


class Voice:
    """Pulls what it is given, then fails as told."""

    def __init__(self, pcm: Any = None, error: Exception | None = None) -> None:
        self.pcm, self.error = pcm, error
        self.asked: list[int] = []
        self.late: list[float] = []

    def pull(self, n: int) -> Any:
        self.asked.append(n)
        if self.error:
            raise self.error
        return np.full(n, 1234, np.int16) if self.pcm is None else self.pcm

    def slot(self, late_s: float) -> None:
        self.late.append(late_s)


def frames_of(voice: Voice, ptime_ms: int, n: int) -> list[Any]:
    async def take() -> list[Any]:
        track = PacedTrack(voice, SystemClock(), ptime_ms)
        taken = [await track.recv() for _ in range(n)]
        track.stop()
        return taken

    return asyncio.run(take())


@pytest.mark.parametrize("ptime_ms", [10, 20])
def test_the_track_pulls_a_frame_a_slot_and_reports_its_lateness(ptime_ms: int) -> None:
    voice = Voice()
    frames = frames_of(voice, ptime_ms, 3)
    n = 48 * ptime_ms
    assert voice.asked == [n] * 3
    assert [f.pts for f in frames] == [0, n, 2 * n]
    assert {(f.samples, f.sample_rate, f.format.name, f.layout.name) for f in frames} == {(n, 48_000, "s16", "mono")}
    assert (frames[0].to_ndarray() == 1234).all()
    assert len(voice.late) == 3
    assert min(voice.late) >= 0.0


@pytest.mark.parametrize(
    "voice", [Voice(error=RuntimeError("no")), Voice(pcm=np.zeros(7, np.int16)), Voice(pcm=np.zeros(960, np.float32))]
)
def test_a_session_that_fails_sends_silence_and_keeps_the_sender_alive(voice: Voice) -> None:
    frames = frames_of(voice, 20, 2)
    assert [f.samples for f in frames] == [960, 960]
    assert not any(f.to_ndarray().any() for f in frames)


# -- codecs


def tone(index: int, samples: int) -> Any:
    t = (index * samples + np.arange(samples)) / 48_000
    pcm = (8000 * np.sin(2 * np.pi * 440 * t)).astype(np.int16)
    frame = av.AudioFrame.from_ndarray(pcm.reshape(1, -1), format="s16", layout="mono")
    frame.sample_rate, frame.pts, frame.time_base = 48_000, index * samples, fractions.Fraction(1, 48_000)
    return frame


@pytest.mark.parametrize("samples", [480, 960])
def test_a_frame_becomes_a_packet_of_its_length_and_comes_back(samples: int) -> None:
    encoder, heard = codecs.InlineOpusEncoder(), []
    decoder = codecs.InlineDecoder(heard.append)
    opus = SimpleNamespace(name="opus", mimeType="audio/opus")
    for index in range(10):
        packets, timestamp = encoder.encode(tone(index, samples))
        assert len(packets) == 1
        assert timestamp == index * samples
        _, run = AudioJitterBuffer().add(packet(index, timestamp, packets[0]))
        decoder.decode(opus, run)
    assert [f.samples for f in heard] == [samples] * 10
    level = float(np.sqrt(np.mean(heard[-1].to_ndarray().astype(np.float64) ** 2)))
    assert level == pytest.approx(8000 / 2**0.5, rel=0.2)


def test_a_frame_of_another_length_or_layout_is_refused() -> None:
    encoder = codecs.InlineOpusEncoder()
    encoder.encode(tone(0, 960))
    with pytest.raises(ValueError, match="480 samples"):
        encoder.encode(tone(1, 480))
    stereo = av.AudioFrame.from_ndarray(np.zeros((1, 1920), np.int16), format="s16", layout="stereo")
    stereo.sample_rate = 48_000
    with pytest.raises(ValueError, match="mono"):
        encoder.encode(stereo)


def test_the_decoder_worker_decodes_on_the_loop_and_ends_the_track() -> None:
    """Tasks put before and after it took over are delivered, rubbish is dropped, None ends thread and track."""
    opus = SimpleNamespace(name="opus", mimeType="audio/opus")
    packets, _ = codecs.InlineOpusEncoder().encode(tone(0, 960))

    def task() -> tuple[Any, Any]:
        return opus, AudioJitterBuffer().add(packet(0, 0, packets[0]))[1]

    async def run() -> list[Any]:
        loop, tasks, out = asyncio.get_running_loop(), queue.Queue[Any](), asyncio.Queue[Any]()
        tasks.put(task())
        thread = threading.Thread(target=codecs.decoder_worker, args=(loop, tasks, out, threading.Event()))
        thread.start()
        first = await asyncio.wait_for(out.get(), 5)
        here: list[int] = []
        out.put_nowait = lambda item, put=out.put_nowait: (here.append(threading.get_ident()), put(item))[1]  # type: ignore[method-assign]
        tasks.put((opus, AudioJitterBuffer().add(packet(0, 0, b"\xff\xff\xff"))[1]))
        tasks.put(task())
        got = [first, await asyncio.wait_for(out.get(), 5)]
        tasks.put(None)
        got.append(await asyncio.wait_for(out.get(), 5))
        thread.join(5)
        assert not thread.is_alive()
        assert set(here) <= {threading.get_ident()}
        return got

    got = asyncio.run(run())
    assert [f is not None and f.samples for f in got] == [960, 960, False]


def test_the_loop_encodes_in_place_and_leaves_other_work_to_the_executor() -> None:
    async def run() -> tuple[bool, int]:
        loop = asyncio.get_running_loop()
        encoding = loop.run_in_executor(None, codecs.InlineOpusEncoder().encode, tone(0, 960), False)
        in_place = encoding.done()
        with pytest.raises(ValueError, match="mono"):
            await loop.run_in_executor(None, codecs.InlineOpusEncoder().encode, stereo())
        return in_place, await loop.run_in_executor(None, threading.get_ident)

    def stereo() -> Any:
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1920), np.int16), format="s16", layout="stereo")
        frame.sample_rate = 48_000
        return frame

    loop = InlineLoop()
    try:
        in_place, thread = loop.run_until_complete(run())
    finally:
        loop.close()
    assert in_place
    assert thread != threading.get_ident()


# -- SDP

ANSWER = "\r\n".join(
    [
        "v=0",
        "m=audio 9 UDP/TLS/RTP/SAVPF 111",
        "a=rtpmap:111 opus/48000/2",
        "a=ptime:60",
        "m=video 9 UDP/TLS/RTP/SAVPF 96",
        "a=mid:1",
        "m=audio 9 UDP/TLS/RTP/SAVPF 111",
        "a=mid:2",
        "",
    ]
)


def test_every_audio_section_asks_for_the_packet_length_once() -> None:
    got = sdp.with_ptime(ANSWER, 10)
    audio, video, last = got.split("m=")[1:]
    assert audio.count("a=ptime:10\r\n") == last.count("a=ptime:10\r\n") == 1
    assert "ptime" not in video
    assert "a=ptime:60" not in got
    assert got.endswith("\r\n")
    assert sdp.with_ptime(got, 10) == got


# -- capture


def microphone_frame(index: int, samples: int = 480) -> Any:
    t = (index * samples + np.arange(samples)) / 48_000
    mono = (16_384 * np.sin(2 * np.pi * 440 * t)).astype(np.int16)
    frame = av.AudioFrame.from_ndarray(np.repeat(mono, 2).reshape(1, -1), format="s16", layout="stereo")
    frame.sample_rate, frame.pts = 48_000, index * samples * 7  # as after lost packets
    frame.time_base = fractions.Fraction(1, 48_000)
    return frame


def test_the_microphone_arrives_at_16_khz_as_loud_as_it_was() -> None:
    capture = Capture()
    chunks = [c for i in range(100) if (c := capture.chunk(microphone_frame(i), at=float(i)))]
    heard = np.concatenate([c.samples for c in chunks])
    assert heard.dtype == np.float32
    assert heard.size == pytest.approx(16_000, abs=64)
    assert float(np.abs(heard).max()) == pytest.approx(0.5, abs=0.01)
    assert chunks[-1].at == 99.0


# -- the line


class Visit(Voice):
    def __init__(self) -> None:
        super().__init__()
        self.clock: Any = SystemClock()
        self.chunks: list[Any] = []

    def hear(self, chunk: Any) -> None:
        self.chunks.append(chunk)

    def downlink(self, ms: float) -> None:
        raise AssertionError("nobody measured")


def test_a_line_carries_one_connection_and_tells_its_end_once() -> None:
    ended: queue.Queue[Any] = queue.Queue()
    line, visit = Line(ended.put), Visit()
    track = line.open(lambda: visit, 20)
    assert line.open(lambda: pytest.fail("one session a connection"), 20) is track
    line.heard(microphone_frame(0))
    line.heard(microphone_frame(1))
    assert visit.chunks
    line.closed(track)
    line.closed(track)
    assert ended.get(timeout=5) is visit
    assert track.readyState == "ended"
    assert line.track is None
    heard = len(visit.chunks)
    line.heard(microphone_frame(2))
    assert len(visit.chunks) == heard
    with pytest.raises(queue.Empty):
        ended.get(timeout=0.05)


def test_a_late_word_about_an_earlier_connection_leaves_the_new_one_alone() -> None:
    line = Line()
    first = line.open(Visit, 20)
    line.closed(first)
    second = line.open(Visit, 10)
    line.closed(first)
    assert line.track is second
    assert second.readyState == "live"
    line.closed(second)


def test_a_microphone_that_falls_silent_as_a_line_ends_the_call() -> None:
    """A killed browser says no goodbye: the outbound slots notice that nothing comes in any more."""
    ended: queue.Queue[Any] = queue.Queue()
    line, visit = Line(ended.put), Visit()
    visit.clock = clock = ManualClock()
    track = line.open(lambda: visit, 20)
    clock.advance(60)  # before the first frame nothing is missing: the connection is still being made
    asyncio.run(track.recv())
    line.heard(microphone_frame(0))
    clock.advance(DEAD_AFTER_S - 0.1)
    line.heard(microphone_frame(1))
    clock.advance(DEAD_AFTER_S - 0.1)
    asyncio.run(track.recv())
    assert line.track is track
    clock.advance(10 * DEAD_AFTER_S)
    asyncio.run(track.recv())  # the stall itself is not held against the browser
    clock.advance(DEAD_AFTER_S)
    asyncio.run(track.recv())
    assert ended.get(timeout=5) is visit
    assert track.readyState == "ended"


# -- what is installed


@pytest.fixture
def stock_again() -> Any:
    yield
    install(Settings(transport="stock"))


def test_installing_is_idempotent_and_stock_takes_everything_back(stock_again: None) -> None:
    import aiortc.codecs
    import aiortc.rtcrtpreceiver as receiver
    import streamlit_webrtc.webrtc as worker

    install(Settings(transport="stock"))
    interval = sys.getswitchinterval()

    def names() -> list[Any]:
        return [
            receiver.JitterBuffer,
            receiver.decoder_worker,
            aiortc.codecs.OpusEncoder,
            worker.get_global_event_loop,
            worker.get_global_relay,
            worker.WebRtcWorker.local_description,
        ]

    before = names()
    tuned = install(Settings(transport="tuned"))
    assert (tuned.transport, tuned.loop) == ("tuned", "own")
    assert not any(a is b for a, b in zip(before, names(), strict=True))
    assert sys.getswitchinterval() < interval
    replaced = names()
    assert install(Settings(transport="tuned", out_ptime_ms=10)) is tuned
    assert all(a is b for a, b in zip(replaced, names(), strict=True))
    assert worker.get_global_event_loop().is_running()
    stock = install(Settings(transport="stock"))
    assert (stock.transport, stock.loop) == ("stock", "streamlit")
    assert all(a is b for a, b in zip(before, names(), strict=True))
    assert sys.getswitchinterval() == interval


def test_other_versions_are_refused_by_name() -> None:
    found = {**TESTED, "aiortc": "2.0.0", "av": "missing"}
    with pytest.raises(TurnaroundError) as caught:
        check_versions(lambda: found)
    assert caught.value.code is Code.TRANSPORT_UNTESTED
    for word in ("aiortc 2.0.0", "tested: 1.16.0", "av missing", "aiortc==1.16.0", "transport=stock"):
        assert word in str(caught.value)


def test_a_name_of_another_shape_is_refused_and_nothing_is_replaced() -> None:
    owner = type("Owner", (), {"kept": lambda a, b: None, "gone": property(lambda self: 1)})
    before = dict(vars(owner))
    good, reshaped = Patch(owner, "kept", ("a", "b"), print), Patch(owner, "kept", ("a",), print)
    for bad in (reshaped, Patch(owner, "absent", (), print), Patch(owner, "gone", (), print)):
        with pytest.raises(TurnaroundError) as caught:
            Switch().on([good, bad])
        assert caught.value.code is Code.TRANSPORT_UNTESTED
        assert bad.name in str(caught.value)
        assert dict(vars(owner)) == before


def test_a_page_change_is_not_the_end_of_a_call(stock_again: None) -> None:
    import streamlit_webrtc.shutdown as shutdown

    install(Settings(transport="stock"))
    session = SimpleNamespace(_client_state=SimpleNamespace(page_script_hash="another page"))
    assert shutdown._get_current_page_script_hash(session) == ""


@pytest.mark.parametrize("kept", [False, True])
def test_two_quick_runs_do_not_hang_up(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's count of runs lags behind, then moves by two: the library takes a connected call for an orphan."""
    import streamlit_webrtc.component as component

    session = SimpleNamespace(script_run_count=3)
    monkeypatch.setattr(component, "st", SimpleNamespace(session_state={}))
    monkeypatch.setattr(component, "get_this_session_info", lambda: session)
    stopped: list[bool] = []

    class Worker:
        def stop(self) -> None:
            stopped.append(True)

    worker = Worker()
    context = component._get_or_create_context("call")
    context._set_worker(worker)
    session.script_run_count += 2
    if kept:
        keep_call_across_runs(context)
    assert component._get_or_create_context("call") is context
    assert bool(stopped) is not kept, "without it the library hangs up: once that is mended, this can go"


# -- ICE servers and constraints


def test_ice_servers_are_a_list_or_a_configuration() -> None:
    from pipeline.ui.webrtc import parse_ice

    servers = [{"urls": "turn:host:3478", "username": "u", "credential": "p"}]
    assert parse_ice(json.dumps(servers)) == {"iceServers": servers}
    relay = {"iceServers": servers, "iceTransportPolicy": "relay"}
    assert parse_ice(json.dumps(relay)) == relay
    for bad in ("turn:host", "3", '["turn:host"]', '{"urls": "turn:host"}', "null"):
        with pytest.raises(ValueError, match="TURNAROUND_ICE_SERVERS"):
            parse_ice(bad)


def test_headphones_need_no_echo_cancellation() -> None:
    from pipeline.ui.webrtc import constraints

    assert constraints(Settings())["audio"]["echoCancellation"] is True
    assert constraints(Settings(headphones=True))["audio"]["echoCancellation"] is False
    assert constraints(Settings())["video"] is False


def test_the_probe_is_shipped() -> None:
    import pipeline.ui.webrtc as webrtc

    folder = Path(webrtc.__file__).parent / "probe"
    assert 'src="probe.js"' in (folder / "index.html").read_text()
    assert (folder / "probe.js").stat().st_size > 0
