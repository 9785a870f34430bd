"""What an engine is, by stage. Weights are shared by every visitor; what one visitor needs is in the object that
`stream`, `listen` or `reply` hands out. An engine is thread-safe or takes its own lock.
Audio is float32 mono in [-1, 1].

Every engine raises EngineError with a code; any other exception is treated as a defect of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from pipeline.settings import Settings

Samples: TypeAlias = npt.NDArray[np.float32]  # shape (n,)
Cancel: TypeAlias = Callable[[], bool]  # True once the result is no longer wanted; cheap, polled per token
Progress: TypeAlias = Callable[[str, float], None]  # what is going on, share done 0..1

CAPTURE_RATE = 16_000  # Hz: what VAD, turn model and ASR are given
PLAYOUT_RATE = 48_000  # Hz: what the transport pulls


@dataclass(frozen=True, slots=True)
class Chunk:
    """Captured PCM with its capture time."""

    samples: Samples  # shape (n,), 16 kHz
    at: float  # seconds on the session's clock: arrival of the last sample


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class ReplyLimits:
    """Where a reply must stop, whatever the model wants."""

    max_tokens: int = 64
    temperature: float = 0.0


@dataclass(frozen=True, slots=True)
class Style:
    """How a phrase is spoken."""

    speed: float = 1.0  # 1.0 is the voice's own pace
    voice: str = ""  # "" is the engine's default voice
    manner: str = ""  # a name out of manners.py, such as "cantonese"; "" is the voice as it is


def no_progress(_what: str, _share: float) -> None:
    """A Progress that tells nobody."""


def no_secret(_name: str) -> str:
    """Keys and paths of a machine where none is set."""
    return ""


def never() -> bool:
    """A Cancel that never asks to stop."""
    return False


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What a factory is given. Engines read nothing else: no environment, no global settings."""

    threads: int = 2  # inference threads of one call
    cache: Path = field(default_factory=lambda: Path.home() / ".cache" / "turnaround")
    models: Path = field(default_factory=lambda: Path.home() / ".cache" / "turnaround" / "models")  # from a hub
    progress: Progress = no_progress
    settings: Settings = field(default_factory=Settings)  # each engine reads its own tunables
    secret: Callable[[str], str] = no_secret  # the value of a name in Row.needs; "" where it is not set


class Engine(Protocol):
    """What all engines share."""

    name: str

    def warm_up(self) -> None:
        """Run once end to end, so that the first visitor does not pay for it."""
        ...


class VadStream(Protocol):
    """One visitor's voice activity."""

    def probability(self, frame: Samples) -> float:
        """P(speech), 0..1, of the next frame: shape (frame_samples,), 16 kHz. State carries over between calls."""
        ...


class Vad(Engine, Protocol):
    frame_samples: int

    def stream(self) -> VadStream: ...


class Turnmodel(Engine, Protocol):
    """Tells from the sound of it whether somebody has finished."""

    def finished(self, speech: Samples) -> float:
        """P(finished), 0..1, for the turn so far: shape (n,), 16 kHz."""
        ...


class Hearing(Protocol):
    """One utterance being recognised. Used by one thread."""

    @property
    def emotion(self) -> str:
        """How the caller sounded in the last text given: "happy", "angry", ...; "" where the engine cannot tell."""
        ...

    def feed(self, samples: Samples) -> None:
        """More audio, any length. Cheap: no decoding happens here."""
        ...

    def partial(self) -> str:
        """The text of all audio fed so far, while the caller speaks; more may follow. "" when there are no words.

        Asked for several times a second: an engine that streams gives what it has, and may lack the last word.
        """
        ...

    def settled(self) -> str:
        """The caller pauses: the best text of all audio fed so far, to its last word; more may follow."""
        ...

    def finish(self) -> str:
        """The final text. Nothing is fed afterwards."""
        ...


class Asr(Engine, Protocol):
    def listen(self, language: str = "") -> Hearing:
        """A new utterance. `language`: "zh", "yue", "en", ... where it is known; engines of one language ignore it."""
        ...


class Llm(Engine, Protocol):
    def warm(self, prefix: Sequence[Message]) -> None:
        """Compute and keep what a reply to a conversation beginning with `prefix` will need."""
        ...

    def completeness(self, opening: Sequence[Message], said: str) -> float | None:
        """P(a sentence ends after `said`), 0..1, said by the caller after `opening`; None where it cannot tell.

        The prefill it costs is work done ahead for the reply to the same words.
        """
        ...

    def reply(self, messages: Sequence[Message], cancel: Cancel, limits: ReplyLimits) -> Iterator[str]:
        """Pieces of text (Deltas) as they are made; ends soon after cancel() is True or the iterator is closed."""
        ...


class Tts(Engine, Protocol):
    rate: int  # Hz of what speak yields
    shortest: int  # characters a phrase should have: shorter ones are joined with the next where there is one

    def speak(self, phrase: str, style: Style, cancel: Cancel) -> Iterator[Samples]:
        """Audio of one phrase, first piece as early as possible, without leading silence.

        Yields nothing for text with nothing to say ("", "...", an emoji): that is not an error here.
        """
        ...


@dataclass(frozen=True, slots=True)
class Engines:
    """One engine a stage: what a session is given. Shared by every visitor."""

    vad: Vad
    turn_model: Turnmodel | None  # None: the endpoint goes by silence alone
    asr: Asr
    llm: Llm
    tts: Tts
