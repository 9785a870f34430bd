"""An English voice by hibari-tts (Apache-2.0): its text-to-phonemes and its ONNX model, 24 kHz.

A phrase is synthesised in one run (8 ms for two words, about a hundred times faster than it is spoken), then handed on
in short pieces so that a barge-in need not wait. The model begins with about 0.3 s of silence, which would be 0.3 s of
everybody's latency: it is cut.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.engines import ort
from pipeline.engines.registry import Kind, row
from pipeline.engines.weights import locate
from pipeline.errors import Code, EngineError
from pipeline.ports import Cancel, EngineOptions, Samples, Style, never

_RATE = 24_000
_PIECE = _RATE // 5  # samples, 200 ms
_AUDIBLE = 10.0 ** (-45.0 / 20.0)  # -45 dBFS
_LEAD = _RATE * 5 // 1000  # samples kept before the first audible one, and faded in
_TAIL = _RATE * 120 // 1000  # samples kept after the last audible one
_SEED = 7  # of the breath noise: the same phrase always sounds the same
_VOICE = "heart"  # the one inside the package; the others would be downloaded
_LONGEST = 300  # phonemes made at once, about 20 s of speech: a sentence without end must not hold up its beginning
_SLOWEST, _FASTEST = 0.5, 2.0


def speakable(text: str) -> bool:
    """Whether there is a Latin letter or a digit: the voice knows nothing else and would breathe or hum instead."""
    return any(c.isalnum() and c < "\u0250" for c in text)


def trimmed(audio: Samples) -> Samples:
    """Shape (n,) at 24 kHz without its leading silence and with at most 120 ms after the last audible sample."""
    loud = np.flatnonzero(np.abs(audio) > _AUDIBLE)
    if loud.size == 0:
        return audio[:0]
    start = max(0, int(loud[0]) - _LEAD)
    kept = audio[start : int(loud[-1]) + 1 + _TAIL].copy()
    ramp = np.linspace(0.0, 1.0, min(_LEAD, kept.size), dtype=np.float32)
    kept[: ramp.size] *= ramp
    kept[kept.size - ramp.size :] *= ramp[::-1]
    return kept


class Hibari:
    """The shared weights. `speak` keeps nothing between phrases, so visitors cannot touch each other."""

    name = "hibari"
    rate = _RATE
    shortest = 1
    reads_numbers = True  # heard again by a recogniser, its own reading of money, dates and units was right

    def __init__(self, voice: Any) -> None:
        self._voice = voice

    def warm_up(self) -> None:
        # The second word is in no dictionary: it loads the model that guesses how words are said.
        for _ in self.speak("Hello zorblax.", Style(), never):
            pass

    def speak(self, phrase: str, style: Style, cancel: Cancel) -> Iterator[Samples]:
        """Pieces of at most 200 ms; nothing for a phrase without Latin letters and digits.

        EngineError TTS_FAILED for a voice that is not in the package or when the model cannot be run.
        """
        if style.voice not in ("", _VOICE):
            what = f"the voice {style.voice!r} is not in the package"
            raise EngineError(Code.TTS_FAILED, what, f"use {_VOICE!r}")
        if not speakable(phrase):
            return
        speed = min(_FASTEST, max(_SLOWEST, style.speed))
        for phonemes in self._phonemes(phrase):
            if cancel():
                return
            audio = trimmed(self._audio(phonemes, speed))
            for at in range(0, audio.size, _PIECE):
                if cancel():
                    return
                yield audio[at : at + _PIECE]

    def _phonemes(self, phrase: str) -> list[str]:
        """One string a sentence (a very long one in parts), those without a sound left out."""
        try:
            sentences = self._voice.phonemize(phrase)
        except Exception as error:
            raise EngineError(Code.TTS_FAILED, f"hibari cannot read {phrase[:60]!r}: {error}") from error
        parts = (part for sentence in sentences for part in textwrap.wrap(sentence, _LONGEST))
        return [part for part in parts if any(c.isalpha() for c in part)]

    def _audio(self, phonemes: str, speed: float) -> Samples:
        try:
            audio: Samples = self._voice.from_phonemes(phonemes, speed, _SEED)
        except Exception as error:
            raise EngineError(Code.TTS_FAILED, f"hibari: {error}") from error
        return audio


def build(options: EngineOptions) -> Hibari:
    """One thread, whatever the options say: on busy cores two took 1.7 times as long to the first piece."""
    (weight,) = row(Kind.TTS, Hibari.name).weights
    return Hibari(_voice(locate(weight, options), threads=1))


def _voice(model: Path, threads: int) -> Any:
    """The package's own voice over our session.

    Its constructor would open a session whose idle threads spin on the cores the other stages need, and may download
    a voice: so what it sets is set here. The pin of hibari-tts is what makes that safe; the contract test shows it.
    """
    from hibari import tts

    voice = tts.Hibari.__new__(tts.Hibari)
    voice.voice, voice.model_path = _VOICE, str(model)
    voice.sess = ort.open_session(model, threads)
    voice.vocab = json.loads(Path(tts.ASSETS, "vocab.json").read_text("utf-8"))
    voice._g2p = None
    _ = voice.g2p  # loads the dictionaries now, not in the first visitor's phrase
    return voice
