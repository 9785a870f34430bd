"""Has the caller finished? Smart Turn v3.2 (BSD-2-Clause) tells from the sound of the last 8 seconds.

The model reads a Whisper log-mel spectrogram. Source of its constants: transformers' WhisperFeatureExtractor and
Smart Turn's own analyser (audio padded with zeros in front, normalised to zero mean and unit variance).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.engines import ort
from pipeline.engines.registry import Kind, row
from pipeline.engines.weights import locate
from pipeline.errors import Code, EngineError
from pipeline.ports import CAPTURE_RATE, EngineOptions, Samples

_SECONDS = 8
_SAMPLES = _SECONDS * CAPTURE_RATE
_FFT = 400  # samples, 25 ms
_HOP = 160  # samples, 10 ms
_FRAMES = _SAMPLES // _HOP
_MELS = 80
_FLOOR = 1e-10  # of the mel power
_VARIANCE_FLOOR = 1e-7


def log_mel(speech: Samples) -> npt.NDArray[np.float32]:
    """Shape (80, 800): the log-mel spectrogram of the last 8 s of `speech` (n,) at 16 kHz, zeros in front."""
    speech = speech[-_SAMPLES:]
    silent = _SAMPLES - speech.size
    mean = np.float32(speech.sum() / _SAMPLES)
    power = np.float32(np.square(speech - mean).sum() + silent * mean * mean) / _SAMPLES
    scale = np.float32(1.0) / np.sqrt(power + np.float32(_VARIANCE_FLOOR))
    # All frames wholly inside the zeros are the same one: only one of them is computed.
    skipped = max(0, (silent - _FFT // 2) // _HOP)
    kept = np.zeros(_SAMPLES - skipped * _HOP, np.float32)
    if speech.size:
        kept[-speech.size :] = speech
    padded = np.pad((kept - mean) * scale, _FFT // 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, _FFT)[::_HOP][:-1]
    spectrum = np.fft.rfft(windows * _hann(), axis=-1)
    mel = np.log10(np.maximum(_filters() @ (spectrum.real**2 + spectrum.imag**2).T, _FLOOR))
    full = np.concatenate([np.repeat(mel[:, :1], skipped, axis=1), mel], axis=1)
    scaled: npt.NDArray[np.float32] = ((np.maximum(full, full.max() - 8.0) + 4.0) / 4.0).astype(np.float32)
    return scaled


@cache
def _hann() -> npt.NDArray[np.float32]:
    return np.hanning(_FFT + 1)[:-1].astype(np.float32)


@cache
def _filters() -> npt.NDArray[np.float32]:
    """Shape (80, 201): triangles on the Slaney mel scale, each of unit area."""
    edges = _to_hertz(np.linspace(0.0, _to_mel(CAPTURE_RATE / 2), _MELS + 2))
    bins = np.linspace(0.0, CAPTURE_RATE / 2, _FFT // 2 + 1)
    rising = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    area = 2.0 / (edges[2:] - edges[:-2])
    return (np.maximum(0.0, np.minimum(rising, falling)) * area[:, None]).astype(np.float32)


# Slaney's scale: linear up to 1 kHz (15 mel), logarithmic above it.
_STEP = np.log(6.4) / 27.0


def _to_mel(hertz: float) -> float:
    return 3.0 * hertz / 200.0 if hertz < 1000.0 else float(15.0 + np.log(hertz / 1000.0) / _STEP)


def _to_hertz(mel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.where(mel < 15.0, 200.0 * mel / 3.0, 1000.0 * np.exp((np.maximum(mel, 15.0) - 15.0) * _STEP))


class SmartTurn:
    """The shared weights. A call keeps nothing, so visitors cannot touch each other."""

    name = "smart-turn"

    def __init__(self, session: Any) -> None:
        self._session = session

    def warm_up(self) -> None:
        self.finished(np.zeros(CAPTURE_RATE, np.float32))

    def finished(self, speech: Samples) -> float:
        """P(finished) of shape (n,), 16 kHz: the speech and what little silence has followed it.

        0.0 when there is no audio at all. EngineError VAD_FAILED when the model cannot be run.
        """
        if speech.size == 0:
            return 0.0
        clean = np.nan_to_num(speech[-_SAMPLES:], nan=0.0, posinf=1.0, neginf=-1.0).astype(np.float32, copy=False)
        try:
            (output,) = self._session.run(None, {"input_features": log_mel(np.clip(clean, -1.0, 1.0))[None]})
        except Exception as error:
            raise EngineError(Code.VAD_FAILED, f"smart-turn: {error}") from error
        return min(1.0, max(0.0, float(output[0, 0])))


def build(options: EngineOptions) -> SmartTurn:
    (weight,) = row(Kind.TURN, SmartTurn.name).weights
    # A second thread makes it no faster (136 ms against 149) and would run beside the recogniser's.
    return SmartTurn(ort.open_session(locate(weight, options), threads=1))
