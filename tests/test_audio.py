"""Clips of every shape a visitor may hand over, and the arithmetic of samples."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pipeline import audio
from pipeline.errors import Code, EngineError


def _tone(seconds: float, rate: int, channels: int = 1, hz: float = 440.0) -> np.ndarray:
    t = np.arange(round(seconds * rate)) / rate
    wave = (0.5 * np.sin(2 * np.pi * hz * t)).astype(np.float32)
    return np.repeat(wave[:, None], channels, axis=1)


def _bytes(frames: np.ndarray, rate: int, kind: str = "WAV", subtype: str | None = None) -> bytes:
    out = BytesIO()
    soundfile.write(out, frames, rate, format=kind, subtype=subtype)
    return out.getvalue()


@pytest.mark.parametrize(
    ("rate", "channels", "kind", "subtype"),
    [
        (8_000, 1, "WAV", "PCM_16"),
        (16_000, 1, "FLAC", None),
        (44_100, 2, "WAV", "PCM_24"),
        (48_000, 2, "OGG", None),
        (22_050, 6, "WAV", "FLOAT"),
    ],
)
def test_any_rate_and_channel_count_becomes_16_khz_mono(
    rate: int, channels: int, kind: str, subtype: str | None
) -> None:
    clip = audio.read_clip(_bytes(_tone(1.0, rate, channels), rate, kind, subtype))
    assert clip.dtype == np.float32
    assert clip.ndim == 1
    assert abs(len(clip) - 16_000) <= 160
    middle = clip[4_000:12_000]
    spectrum = np.abs(np.fft.rfft(middle))
    assert abs(int(spectrum.argmax()) * 16_000 / len(middle) - 440) <= 2
    assert abs(audio.dbfs(middle) - -9.03) < 0.5


def test_a_path_reads_like_its_bytes(tmp_path: Path) -> None:
    data = _bytes(_tone(0.5, 16_000), 16_000)
    path = tmp_path / "clip.wav"
    path.write_bytes(data)
    assert np.array_equal(audio.read_clip(path), audio.read_clip(data))
    assert np.array_equal(audio.read_clip(str(path)), audio.read_clip(data))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", Code.UNREADABLE_FILE),
        (b"not audio at all, whatever its name says", Code.UNREADABLE_FILE),
        (_bytes(_tone(0.05, 16_000), 16_000), Code.TOO_SHORT),
        (_bytes(np.zeros((0, 1), np.float32), 16_000), Code.BAD_AUDIO),
        (_bytes(np.full((16_000, 1), np.nan, np.float32), 16_000, subtype="FLOAT"), Code.BAD_AUDIO),
        (_bytes(np.array([[0.0], [np.inf]] * 8_000, np.float32), 16_000, subtype="FLOAT"), Code.BAD_AUDIO),
    ],
)
def test_bad_files_get_a_code_and_a_remedy(data: bytes, code: Code) -> None:
    with pytest.raises(EngineError) as caught:
        audio.read_clip(data)
    assert caught.value.code is code
    assert caught.value.remedy


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"nowhere\.wav") as caught:
        audio.read_clip(tmp_path / "nowhere.wav")
    assert caught.value.code is Code.UNREADABLE_FILE


def test_a_file_of_hours_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(EngineError, match="30 minutes") as caught:
        audio.read_clip(_bytes(np.zeros((1_900 * 100, 1), np.float32), 100))
    assert caught.value.code is Code.UNREADABLE_FILE


def test_overdriven_samples_are_held_within_full_scale() -> None:
    loud = _bytes(_tone(0.5, 44_100) * 6, 44_100, subtype="FLOAT")
    clip = audio.read_clip(loud)
    assert float(np.abs(clip).max()) == 1.0
    assert audio.clipped_share(clip) > 0.5


@given(hnp.arrays(np.float32, st.integers(0, 400), elements=st.floats(width=32, allow_nan=True, allow_infinity=True)))
def test_cleaned_samples_are_finite_bounded_and_counted(samples: np.ndarray) -> None:
    cleaned, broken = audio.clean(samples)
    assert cleaned.dtype == np.float32
    assert cleaned.shape == samples.shape
    assert np.isfinite(cleaned).all()
    assert (np.abs(cleaned) <= 1.0).all()
    assert broken == int(np.sum(~np.isfinite(samples)))
    ordinary = np.isfinite(samples) & (np.abs(samples) <= 1.0)
    assert np.array_equal(cleaned[ordinary], samples[ordinary])


@given(hnp.arrays(np.int16, st.integers(0, 400)))
def test_int16_survives_the_way_there_and_back(samples: np.ndarray) -> None:
    assert (np.abs(audio.to_int16(audio.from_int16(samples)).astype(int) - samples.astype(int)) <= 1).all()


def test_to_int16_clips_instead_of_wrapping() -> None:
    assert audio.to_int16(np.array([2.0, -2.0, 0.0], np.float32)).tolist() == [32767, -32767, 0]


def test_levels() -> None:
    assert audio.dbfs(np.zeros(0, np.float32)) == audio.SILENT_DBFS
    assert audio.dbfs(np.zeros(100, np.float32)) == audio.SILENT_DBFS
    assert audio.dbfs(np.ones(100, np.float32)) == 0.0
    assert abs(audio.dbfs(audio.noise(2.0, -62.0, seed=1)) - -62.0) < 0.2
    assert np.array_equal(audio.noise(0.1, -62.0, seed=3), audio.noise(0.1, -62.0, seed=3))
