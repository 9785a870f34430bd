"""Wavs to speak into the microphone, and where in a recording each was spoken."""

from __future__ import annotations

import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr

from pipeline.browser.recording import Pcm, Recording
from pipeline.ports import CAPTURE_RATE, Samples

MIC_RATE = 48_000  # Hz, of the wav: Chromium's own, so that it does not resample
LEAD_S = 4.0  # Chromium plays the wav from getUserMedia on; connecting and capturing begin later
FLOOR_DBFS = -62.0
TEMPLATE_S = 1.2  # of speech before the true end is looked for in the recording
SEARCH_S = 1.5  # either side of where it should be
ANCHORS = 4  # clips by which the file is dated
RECOGNISED = 0.1  # a weaker match is no match


@dataclass(frozen=True, slots=True)
class MicClip:
    """One thing said."""

    samples: Samples  # shape (n,), 16 kHz
    end_s: float  # the true end of speech in it


@dataclass(frozen=True, slots=True)
class MicWav:
    """The file Chromium plays as its microphone, and where its clips lie."""

    path: Path
    pcm: Pcm  # shape (n,), MIC_RATE
    starts_s: tuple[float, ...]  # each clip's first sample, in seconds of the file
    ends_s: tuple[float, ...]  # each clip's true end of speech, likewise

    @property
    def seconds(self) -> float:
        return self.pcm.size / MIC_RATE


@dataclass(frozen=True, slots=True)
class Spoken:
    """A clip found in the microphone's recording."""

    ended_at: float  # seconds on Python's monotonic clock: the capture of the last speech sample
    score: float  # of the match, 0..1; below 0.5 do not trust it


def make_mic_wav(
    clips: Sequence[MicClip],
    gap_s: float | Sequence[float],
    path: Path,
    lead_s: float = LEAD_S,
    floor_dbfs: float = FLOOR_DBFS,
) -> MicWav:
    """Write a wav with the clips `gap_s` seconds apart (end of speech to next clip), noise-floor silence between.

    A sequence gives the gap after each clip.
    """
    gaps = [gap_s] * len(clips) if isinstance(gap_s, int | float) else list(gap_s)
    rng = np.random.default_rng(1)

    def floor(seconds: float) -> Samples:
        amplitude = 10 ** (floor_dbfs / 20)
        return rng.normal(0.0, amplitude, max(0, round(seconds * MIC_RATE))).astype(np.float32)

    parts, at = [floor(lead_s)], round(lead_s * MIC_RATE) / MIC_RATE
    starts: list[float] = []
    ends: list[float] = []
    for clip, gap in zip(clips, gaps, strict=True):
        sound = soxr.resample(clip.samples, CAPTURE_RATE, MIC_RATE).astype(np.float32)
        rest = floor(clip.end_s + gap - sound.size / MIC_RATE)
        starts.append(at)
        ends.append(at + clip.end_s)
        parts += [sound, rest]
        at += (sound.size + rest.size) / MIC_RATE
    pcm = _int16(np.concatenate(parts))
    write_wav(path, pcm)
    return MicWav(path, pcm, tuple(starts), tuple(ends))


def write_wav(path: Path, pcm: Pcm, rate: int = MIC_RATE) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(pcm.tobytes())


def find_spoken(mic: Recording, wav: MicWav) -> list[Spoken | None]:
    """When each clip's speech truly ended, by the microphone's capture times; None for a clip that was not recorded.

    Each clip's last TEMPLATE_S of speech is looked for by cross-correlation at 16 kHz, so no marker sound is needed
    that a VAD would hear. Accuracy: a sample (0.06 ms) against the recording; the browser's own noise and echo
    processing lies before the recording and delays it by a few milliseconds, which therefore count as spoken later.
    """
    recorded, played = _at_16k(mic.pcm, mic.rate), _at_16k(wav.pcm, MIC_RATE)
    if not wav.ends_s or not recorded.size:
        return [None] * len(wav.ends_s)
    zero = _time_of_file(mic, recorded, played, wav)
    found: list[Spoken | None] = []
    for end in wav.ends_s:
        template = played[_place(end - TEMPLATE_S) : _place(end)]
        # By the clock and not by counting samples: a busy browser loses blocks, four seconds of forty under load.
        low, high = (
            mic.sample_at(zero + at) * CAPTURE_RATE // mic.rate for at in (end - TEMPLATE_S - SEARCH_S, end + SEARCH_S)
        )
        place, score = _match(recorded[low:high], template)
        last = (low + place + template.size) * mic.rate // CAPTURE_RATE
        if not 0 < last <= mic.pcm.size or score <= RECOGNISED:
            found.append(None)
            continue
        ended_at = mic.time_of(last - 1)
        found.append(Spoken(ended_at, score))
        if score > 0.5:
            zero = ended_at - end  # the fake microphone drifts a little
    return found


def _place(at: float) -> int:
    """Sample at CAPTURE_RATE of second `at`."""
    return max(0, round(at * CAPTURE_RATE))


def _time_of_file(mic: Recording, recorded: Samples, played: Samples, wav: MicWav) -> float:
    """When the wav's first sample was captured (seconds on the clock), from the first clips, looked for anywhere.

    From the one that fits best: where a busy machine connects late, the first was said before the recording began.
    """
    matches = []
    for end in wav.ends_s[:ANCHORS]:
        until = _place(end) + _place(2 * LEAD_S)
        place, score = _match(recorded[:until], played[_place(end - TEMPLATE_S) : _place(end)])
        matches.append((score, place, end))
    _score, place, end = max(matches)
    return mic.time_of(min(place * mic.rate // CAPTURE_RATE, mic.pcm.size - 1)) - max(0.0, end - TEMPLATE_S)


def _match(window: Samples, template: Samples) -> tuple[int, float]:
    """Where `template` fits best in `window`, and the normalised correlation there."""
    size = window.size - template.size + 1
    if size <= 0 or template.size == 0:
        return 0, 0.0
    n = 1 << (window.size + template.size - 1).bit_length()
    spectrum = np.fft.rfft(window, n) * np.conj(np.fft.rfft(template, n))
    correlation = np.fft.irfft(spectrum, n)[:size]
    energy = np.concatenate(([0.0], np.cumsum(window.astype(np.float64) ** 2)))
    norms = np.sqrt(np.maximum(energy[template.size :][:size] - energy[:size], 1e-9))
    scores = correlation / (norms * max(1e-9, float(np.linalg.norm(template))))
    place = int(np.argmax(scores))
    return place, float(scores[place])


def _at_16k(pcm: Pcm, rate: int) -> Samples:
    samples: Samples = pcm.astype(np.float32) / 32768.0
    return soxr.resample(samples, rate, CAPTURE_RATE).astype(np.float32) if samples.size else samples


def _int16(samples: Samples) -> Pcm:
    return (np.clip(samples, -1.0, 1.0) * 32767.0).astype(np.int16)
