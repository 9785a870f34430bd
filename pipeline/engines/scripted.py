"""Engines that say what a script says: for tests and for showing failures. Never a default.

Each call takes the next Step of the script. A call too many and a step not called for are both errors: `done()` raises
AssertionError for either, so a test that ends with it cannot pass by accident. A step can fail, hang until released, be
slow, or go on for ever. Without a script an engine answers every call the same way.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from pipeline.clock import Clock, SystemClock
from pipeline.ports import Cancel, EngineOptions, Message, ReplyLimits, Samples, Style

T = TypeVar("T")
P = TypeVar("P")
Texts: TypeAlias = str | Sequence[str]

RATE = 24_000  # Hz of the scripted voice
_FRAME = 512  # samples of a VAD frame
_SPEECH, _NO_SPEECH = 0.95, 0.02
_LOUD = 10.0 ** (-40.0 / 20.0)  # RMS above which a frame is speech when there is no script


@dataclass(frozen=True, slots=True)
class Step(Generic[T]):
    """What one call does, in this order: wait, hang, answer, fail."""

    answer: T
    error: Exception | None = None  # raised after the answer of a stream, instead of any other answer
    after_s: float = 0.0  # on the engine's clock, before anything else
    each_s: float = 0.0  # before each piece of a stream
    until: threading.Event | None = None  # hangs until this is set; deaf to cancel, as a hung library is


class Script(Generic[T]):
    """Steps in order, thread-safe. Bare values stand for Step(value)."""

    def __init__(self, name: str, steps: Iterable[T | Step[T]] | None, always: T, clock: Clock) -> None:
        self._name = name
        self._always = Step(always)
        self._left: list[Step[T]] | None = None
        if steps is not None:
            self._left = [s if isinstance(s, Step) else Step(s) for s in steps]
        self._extra = 0
        self._lock = threading.Lock()
        self._clock = clock

    def take(self) -> Step[T]:
        """The next step. AssertionError when the script has ended."""
        with self._lock:
            if self._left is None:
                return self._always
            if not self._left:
                self._extra += 1
                raise AssertionError(f"scripted {self._name}: a call after the end of the script")
            return self._left.pop(0)

    def play(self, step: Step[T]) -> T:
        """The answer of a call that gives one value."""
        self.wait(step)
        if step.error is not None:
            raise step.error
        return step.answer

    def wait(self, step: Step[T]) -> None:
        self._clock.sleep(step.after_s)
        if step.until is not None:
            step.until.wait()

    def done(self) -> None:
        """AssertionError when steps are left or there were calls too many (the caller may have swallowed that one)."""
        with self._lock:
            left = self._left or []
            if self._extra or left:
                raise AssertionError(f"scripted {self._name}: {self._extra} calls too many, steps left: {left}")

    def stream(self, step: Step[T], pieces: Iterable[P], cancel: Cancel) -> Iterator[P]:
        """The answer of a call that gives pieces, until cancelled."""
        self.wait(step)
        for piece in pieces:
            self._clock.sleep(step.each_s)
            if cancel():
                return
            yield piece
        if step.error is not None:
            raise step.error


class _Scripted:
    """What all of them share."""

    name = "scripted"

    def warm_up(self) -> None:
        """Takes no step: the script is for the visitors."""


class ScriptedVad(_Scripted):
    """A step a frame of any visitor; without a script it goes by energy, so tones can drive a session."""

    frame_samples = _FRAME

    def __init__(self, steps: Iterable[float | Step[float]] | None = None, clock: Clock | None = None) -> None:
        self._by_energy = steps is None
        self._script = Script("vad", steps, _NO_SPEECH, clock or SystemClock())
        self.done = self._script.done

    def stream(self) -> ScriptedVad:
        return self

    def probability(self, frame: Samples) -> float:
        if not self._by_energy:
            return self._script.play(self._script.take())
        loud = float(np.sqrt(np.mean(np.square(np.nan_to_num(frame, posinf=1.0, neginf=-1.0))))) > _LOUD
        return _SPEECH if loud else _NO_SPEECH


class ScriptedTurnmodel(_Scripted):
    """A step a judgement; without a script always 0.99."""

    def __init__(self, steps: Iterable[float | Step[float]] | None = None, clock: Clock | None = None) -> None:
        self._script = Script("turn model", steps, 0.99, clock or SystemClock())
        self.done = self._script.done

    def finished(self, speech: Samples) -> float:
        return self._script.play(self._script.take()) if speech.size else 0.0


class ScriptedAsr(_Scripted):
    """A step an utterance. Several texts in a step are the results of its decodes in turn; the last one stays."""

    def __init__(self, steps: Iterable[Texts | Step[Texts]] | None = None, clock: Clock | None = None) -> None:
        self._script: Script[Texts] = Script("asr", steps, "Hello there.", clock or SystemClock())
        self.done = self._script.done

    def listen(self, language: str = "") -> ScriptedHearing:
        return ScriptedHearing(self._script)


class ScriptedHearing:
    """One utterance. It takes its step with the first sound, and plays it at each decode."""

    emotion = ""

    def __init__(self, script: Script[Texts]) -> None:
        self._script = script
        self._step: Step[Texts] | None = None
        self._decodes = 0
        self.samples = 0  # fed so far

    def feed(self, samples: Samples) -> None:
        self.samples += samples.size

    def partial(self) -> str:
        if not self.samples:
            return ""
        if self._step is None:
            self._step = self._script.take()
        answer = self._script.play(self._step)
        texts = (answer,) if isinstance(answer, str) else answer
        self._decodes += 1
        return texts[min(self._decodes, len(texts)) - 1]

    def settled(self) -> str:
        return self.partial()

    def finish(self) -> str:
        return self.partial()


class ScriptedLlm(_Scripted):
    """A step a reply: its deltas, possibly without end. It ignores the limits, as a bad model does."""

    def __init__(
        self, steps: Iterable[Iterable[str] | Step[Iterable[str]]] | None = None, clock: Clock | None = None
    ) -> None:
        default: Iterable[str] = ("This is ", "a scripted ", "reply.")
        self._script = Script("llm", _as_deltas(steps), default, clock or SystemClock())
        self.done = self._script.done
        self.asked: list[tuple[Message, ...]] = []  # what each reply was asked for
        self.warmed: list[tuple[Message, ...]] = []

    def warm(self, prefix: Sequence[Message]) -> None:
        self.warmed.append(tuple(prefix))

    def completeness(self, opening: Sequence[Message], said: str) -> float | None:
        return None

    def reply(self, messages: Sequence[Message], cancel: Cancel, limits: ReplyLimits) -> Iterator[str]:
        self.asked.append(tuple(messages))
        step = self._script.take()
        return self._script.stream(step, step.answer, cancel)


class ScriptedTts(_Scripted):
    """A step a phrase: how many seconds of a 440 Hz tone it is; without a script 60 ms a letter."""

    rate = RATE
    shortest = 1

    def __init__(self, steps: Iterable[float | Step[float]] | None = None, clock: Clock | None = None) -> None:
        self._by_length = steps is None
        self._script = Script("tts", steps, 0.0, clock or SystemClock())
        self.done = self._script.done
        self.spoken: list[str] = []  # the phrases asked for

    def speak(self, phrase: str, style: Style, cancel: Cancel) -> Iterator[Samples]:
        """Takes no step for a phrase with nothing to say."""
        if not any(c.isalnum() for c in phrase):
            return iter(())
        self.spoken.append(phrase)
        step = self._script.take()
        seconds = 0.06 * len(phrase) / style.speed if self._by_length else step.answer
        return self._script.stream(step, tone(seconds), cancel)


def tone(seconds: float, rate: int = RATE, hertz: float = 440.0, peak: float = 0.2) -> Iterator[Samples]:
    """A sine in pieces of 100 ms at `rate`: at 16 kHz it is also a caller for `ScriptedVad`."""
    total, step = round(seconds * rate), rate // 10
    for start in range(0, total, step):
        at = np.arange(start, min(start + step, total)) / rate
        yield (peak * np.sin(2.0 * np.pi * hertz * at)).astype(np.float32)


def _as_deltas(
    steps: Iterable[Iterable[str] | Step[Iterable[str]]] | None,
) -> Iterable[Iterable[str] | Step[Iterable[str]]] | None:
    """A bare string is one delta, not one a letter."""
    return None if steps is None else [(s,) if isinstance(s, str) else s for s in steps]


def build_vad(options: EngineOptions) -> ScriptedVad:
    return ScriptedVad()


def build_turn(options: EngineOptions) -> ScriptedTurnmodel:
    return ScriptedTurnmodel()


def build_asr(options: EngineOptions) -> ScriptedAsr:
    return ScriptedAsr()


def build_llm(options: EngineOptions) -> ScriptedLlm:
    return ScriptedLlm()


def build_tts(options: EngineOptions) -> ScriptedTts:
    return ScriptedTts()
