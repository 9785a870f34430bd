"""Voice activity by Silero VAD 6 (MIT): the ONNX file out of its wheel, run without torch.

Source of the calling convention: silero_vad/utils_vad.py of silero-vad 6.2.3 (512 samples after 64 of the frame
before, a recurrent state of shape (2, 1, 128)).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.engines import ort
from pipeline.engines.registry import Kind, row
from pipeline.engines.weights import locate
from pipeline.errors import Code, EngineError
from pipeline.ports import CAPTURE_RATE, EngineOptions, Samples

_FRAME = 512  # samples, 32 ms
_CONTEXT = 64  # samples of the frame before
_STATE = (2, 1, 128)


class SileroStream:
    """One visitor's recurrent state. Used by one thread."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._state = np.zeros(_STATE, np.float32)
        self._window = np.zeros((1, _CONTEXT + _FRAME), np.float32)
        self._rate = np.array(CAPTURE_RATE, np.int64)

    def probability(self, frame: Samples) -> float:
        """P(speech) of shape (512,) at 16 kHz. EngineError VAD_FAILED on another shape or a failed run."""
        if frame.shape != (_FRAME,):
            raise EngineError(Code.VAD_FAILED, f"a frame has {_FRAME} samples, not {frame.shape}")
        self._window[0, :_CONTEXT] = self._window[0, -_CONTEXT:]
        # Today the model swallows a NaN (its layers end in a ReLU); nothing promises that its state always will.
        self._window[0, _CONTEXT:] = np.clip(np.nan_to_num(frame, nan=0.0, posinf=1.0, neginf=-1.0), -1.0, 1.0)
        try:
            output, self._state = self._session.run(
                None, {"input": self._window, "state": self._state, "sr": self._rate}
            )
        except Exception as error:
            raise EngineError(Code.VAD_FAILED, f"silero: {error}") from error
        return float(output[0, 0])


class Silero:
    """The shared weights; each visitor takes a `stream`."""

    name = "silero"
    frame_samples = _FRAME

    def __init__(self, session: Any) -> None:
        self._session = session

    def warm_up(self) -> None:
        self.stream().probability(np.zeros(_FRAME, np.float32))

    def stream(self) -> SileroStream:
        return SileroStream(self._session)


def build(options: EngineOptions) -> Silero:
    """A frame takes 0.1 ms: a second thread would cost more than it brings."""
    (weight,) = row(Kind.VAD, Silero.name).weights
    return Silero(ort.open_session(locate(weight, options), threads=1))
