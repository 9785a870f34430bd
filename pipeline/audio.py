"""PCM in and out of files, and the small arithmetic of samples. Audio inside is float32 mono in [-1, 1]."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.errors import Code, EngineError
from pipeline.ports import CAPTURE_RATE, Samples

SHORTEST_S = 0.1  # nobody says a word in less
LONGEST_S = 1800.0  # a file that claims more would fill the memory before anybody has heard it
FULL_SCALE = 0.999  # amplitude from which on a sample counts as clipped
SILENT_DBFS = -100.0  # the floor of every level shown


def read_clip(source: str | Path | bytes) -> Samples:
    """A wav, flac or ogg file of any rate and channel count, as 16 kHz mono float32, shape (n,).

    `source` is a path, or the bytes of the file. Channels are averaged.
    Raises EngineError: UNREADABLE_FILE (absent, not audio, cut off, over 30 minutes), BAD_AUDIO (NaN, infinite or
    no samples), TOO_SHORT (under 0.1 s).
    """
    name = "the uploaded file" if isinstance(source, bytes) else str(source)
    frames, rate = _decode(source, name)
    if frames.size == 0:
        raise EngineError(Code.BAD_AUDIO, f"{name} holds no samples", "record it again")
    if not np.isfinite(frames).all():
        raise EngineError(Code.BAD_AUDIO, f"{name} holds samples that are not numbers", "export it again as 16-bit PCM")
    if len(frames) / rate < SHORTEST_S:
        raise EngineError(
            Code.TOO_SHORT, f"{name} lasts {len(frames) / rate * 1e3:.0f} ms", "use a clip of at least 0.1 s"
        )
    return resample(frames.mean(axis=1, dtype=np.float32), rate, CAPTURE_RATE)


def _decode(source: str | Path | bytes, name: str) -> tuple[Samples, int]:
    """(frames, channels) float32 and the rate in Hz."""
    import soundfile

    remedy = "use a wav, flac or ogg file"
    try:
        with soundfile.SoundFile(BytesIO(source) if isinstance(source, bytes) else str(source)) as file:
            if file.frames > LONGEST_S * file.samplerate:
                raise EngineError(
                    Code.UNREADABLE_FILE, f"{name} is longer than 30 minutes", "cut it into shorter clips"
                )
            frames: Samples = file.read(dtype="float32", always_2d=True)
            return frames, int(file.samplerate)
    except (soundfile.LibsndfileError, OSError, RuntimeError) as error:
        raise EngineError(Code.UNREADABLE_FILE, f"{name} cannot be read: {error}", remedy) from error


def resample(samples: Samples, rate: int, to: int) -> Samples:
    """Shape (n,) at `rate` Hz -> shape (about n * to / rate,) at `to` Hz, still within [-1, 1]."""
    if rate != to:
        import soxr

        samples = soxr.resample(samples, rate, to)
    # A resampling filter overshoots at a clipped peak.
    return np.clip(samples, -1.0, 1.0).astype(np.float32, copy=False)


def dbfs(samples: Samples) -> float:
    """Root mean square level, dB below full scale: -100 (silence or nothing) to 0."""
    if samples.size == 0:
        return SILENT_DBFS
    rms = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
    return max(SILENT_DBFS, 20.0 * float(np.log10(rms))) if rms > 0 else SILENT_DBFS


def clean(samples: Samples) -> tuple[Samples, int]:
    """With NaN and infinite samples replaced by silence, all within [-1, 1]; and how many were replaced."""
    broken = int(samples.size - np.count_nonzero(np.isfinite(samples)))
    if broken:
        samples = np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0)
    return np.clip(samples, -1.0, 1.0).astype(np.float32, copy=False), broken


def clipped_share(samples: Samples) -> float:
    """Share (0..1) of samples at full scale: above a few per cent the microphone is turned up too far."""
    return float(np.count_nonzero(np.abs(samples) >= FULL_SCALE) / samples.size) if samples.size else 0.0


def to_int16(samples: Samples) -> npt.NDArray[np.int16]:
    """Float [-1, 1] -> int16, values outside clipped, never wrapped round."""
    return np.round(np.clip(samples, -1.0, 1.0) * 32767.0).astype(np.int16)


def from_int16(samples: npt.NDArray[np.int16]) -> Samples:
    """int16 -> float32 in [-1, 1)."""
    return samples.astype(np.float32) / np.float32(32768.0)


def noise(seconds: float, level_dbfs: float, seed: int) -> Samples:
    """White noise at 16 kHz: the floor of a room, which a microphone never lacks. The same seed gives the same."""
    n = round(seconds * CAPTURE_RATE)
    return np.random.default_rng(seed).standard_normal(n, dtype=np.float32) * np.float32(10 ** (level_dbfs / 20))
