"""Opus on the media loop's own thread.

The libraries decode in a thread and encode in an executor: four hand-offs of the GIL a frame, each of which waits when
Python is busy elsewhere (142 ms a round trip against 64 ms with one thread half busy). A frame takes 0.1 ms to encode,
so it is done in place.
"""

from __future__ import annotations

import contextlib
import fractions
import logging
import queue
from collections.abc import Callable
from typing import Any

import av
import numpy as np
from aiortc.codecs import get_decoder
from aiortc.codecs.base import Encoder
from aiortc.codecs.opus import OpusDecoder
from aiortc.jitterbuffer import JitterFrame

from pipeline.transport.jitter import FrameRun

log = logging.getLogger(__name__)

RATE = 48_000  # Hz, of everything Opus
TIME_BASE = fractions.Fraction(1, RATE)
BIT_RATE = 48_000  # bit/s, mono: transparent for speech


class InlineOpusEncoder(Encoder):
    """Mono Opus whose packets are as long as the frames it is given (10 or 20 ms).

    Against aiortc's encoder: `application` lowdelay (looks ahead 2.5 ms instead of 6.5), the packet length follows the
    track, and there is no resampler in the way, since our track already gives what Opus takes.
    """

    def __init__(self) -> None:
        self._codec: Any = None
        self._ptime_samples = 0
        self._first_pts: int | None = None

    def encode(self, frame: Any, force_keyframe: bool = False) -> tuple[list[bytes], int]:
        """Packets of an s16 mono 48 kHz frame and their RTP timestamp (48 kHz ticks from 0); with no packet, 0."""
        if self._codec is None:
            self._open(frame.samples)
        if (frame.format.name, frame.layout.name, frame.sample_rate) != ("s16", "mono", RATE):
            raise ValueError("the outbound track gives s16 mono frames at 48 kHz")
        if frame.samples != self._ptime_samples:
            raise ValueError(f"a frame of {frame.samples} samples where all had {self._ptime_samples}")
        packets = self._codec.encode(frame)
        if not packets:
            return [], 0
        if self._first_pts is None:
            self._first_pts = packets[0].pts  # starts negative, by the look-ahead
        return [bytes(p) for p in packets], packets[0].pts - self._first_pts

    def pack(self, packet: Any) -> tuple[list[bytes], int]:
        """For a track that is encoded already; ours never is, aiortc's interface has it."""
        ticks = fractions.Fraction(packet.time_base) * RATE
        return [bytes(packet)], int(packet.pts * ticks)

    def _open(self, samples: int) -> None:
        codec = av.CodecContext.create("libopus", "w")
        codec.bit_rate = BIT_RATE
        codec.format = "s16"
        codec.layout = "mono"
        codec.sample_rate = RATE
        codec.time_base = TIME_BASE
        codec.options = {"application": "lowdelay", "frame_duration": str(samples * 1000 // RATE)}
        self._codec, self._ptime_samples = codec, samples


class InlineDecoder:
    """Decodes on the thread that calls it and hands the frames to the track's queue there."""

    def __init__(self, deliver: Callable[[Any], None]) -> None:
        self._deliver = deliver
        self._decoder: Any = None
        self._codec_name = ""

    def decode(self, codec: Any, encoded: JitterFrame) -> None:
        if codec.name != self._codec_name:
            self._decoder, self._codec_name = get_decoder(codec), codec.name
        for frame in encoded.frames() if isinstance(encoded, FrameRun) else [encoded]:
            try:
                for decoded in self._decoder.decode(frame):
                    self._deliver(decoded)
            except av.FFmpegError as error:
                log.warning("dropped a %s packet that would not decode: %s", codec.name, error)


def decoder_worker(loop: Any, input_q: queue.Queue[Any], output_q: Any, decode_error: Any) -> None:
    """Stands in for aiortc's decoder_worker, which runs in a thread of its own and takes tasks from `input_q`.

    The receiver puts its tasks on the media loop, so `input_q.put` is replaced by one that decodes there and then.
    This thread stays for what aiortc needs it for: to end when None comes, and to end the track. Tasks put before the
    replacement are handed back to the loop.
    """
    decoder = InlineDecoder(output_q.put_nowait)
    put_none = input_q.put

    def put(task: Any) -> None:
        if task is None:
            put_none(None)
        else:
            decoder.decode(*task)

    input_q.put = put  # type: ignore[method-assign,assignment]
    while (task := input_q.get()) is not None:
        loop.call_soon_threadsafe(put, task)
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for the track's end any more
        loop.call_soon_threadsafe(output_q.put_nowait, None)


def warm_up(ptime_ms: int) -> None:
    """Run each codec once: a first frame that stalls 90-200 ms inflates the browser's jitter buffer for seconds."""
    encoder, decoder = InlineOpusEncoder(), OpusDecoder()
    samples = RATE * ptime_ms // 1000
    for index in range(5):
        frame = av.AudioFrame.from_ndarray(np.zeros((1, samples), np.int16), format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE, index * samples, TIME_BASE
        packets, timestamp = encoder.encode(frame)
        for packet in packets:
            decoder.decode(JitterFrame(data=packet, timestamp=timestamp))
