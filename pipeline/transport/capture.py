"""Inbound frames to what the session hears."""

from __future__ import annotations

from typing import Any

import av
import numpy as np

from pipeline.ports import CAPTURE_RATE, Chunk


class Capture:
    """One connection's microphone: s16 stereo 48 kHz frames in, 16 kHz mono float32 out. Used by one thread.

    The resampler goes to s16 first: FFmpeg's float mix of two equal channels is 1.41 times as loud and clips.
    """

    def __init__(self) -> None:
        self._resampler = av.AudioResampler(format="s16", layout="mono", rate=CAPTURE_RATE)

    def chunk(self, frame: Any, at: float) -> Chunk | None:
        """The chunk of a frame that arrived `at` seconds on the session's clock; None while the resampler fills."""
        # The library's pts jump where a packet was lost; the resampler would fill the gap or complain.
        frame.pts = None
        parts = [f.to_ndarray().reshape(-1) for f in self._resampler.resample(frame)]
        pcm = np.concatenate(parts) if parts else np.zeros(0, np.int16)
        return Chunk(pcm.astype(np.float32) / 32768.0, at) if pcm.size else None
