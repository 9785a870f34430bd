"""Pace without pitch, while it streams: ffmpeg's atempo filter, for a voice that cannot change its pace itself."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from pipeline.ports import Samples

SLOWEST, FASTEST = 0.5, 2.0
_FRAME_S = 0.01  # the filter keeps the frame it was given last: short ones, then


class Tempo:
    """One phrase. It keeps about 50 ms to itself until `finish`."""

    def __init__(self, rate: int, speed: float) -> None:
        """`speed` is held within 0.5 to 2."""
        from av.filter import Graph

        self._rate = rate
        self._at = 0
        graph = Graph()
        self._in: Any = graph.add_abuffer(sample_rate=rate, format="flt", layout="mono", time_base=Fraction(1, rate))
        tempo = graph.add("atempo", str(min(FASTEST, max(SLOWEST, speed))))
        self._out: Any = graph.add("abuffersink")
        self._in.link_to(tempo)
        tempo.link_to(self._out)
        graph.configure()
        self._graph = graph  # the filters live as long as it does

    def feed(self, samples: Samples) -> Samples:
        """What is ready, shape (n,)."""
        from av import AudioFrame

        step = round(_FRAME_S * self._rate)
        for start in range(0, samples.size, step):
            part = np.ascontiguousarray(samples[start : start + step], np.float32)
            frame = AudioFrame.from_ndarray(part[None], "flt", "mono")
            frame.sample_rate, frame.pts, frame.time_base = self._rate, self._at, Fraction(1, self._rate)
            self._at += part.size
            self._in.push(frame)
        return self._ready()

    def finish(self) -> Samples:
        """The rest, shape (n,)."""
        self._in.push(None)
        return self._ready()

    def _ready(self) -> Samples:
        parts: list[Samples] = []
        while True:
            try:
                parts.append(self._out.pull().to_ndarray().ravel())
            except (BlockingIOError, EOFError):
                break
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)
