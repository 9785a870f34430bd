"""From captured chunks to what the caller does: framing, levels, VAD, endpointing, and the audio of the utterance."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pipeline import endpoint
from pipeline.audio import FULL_SCALE, SILENT_DBFS, clean, clipped_share, dbfs
from pipeline.endpoint import FRAME_SAMPLES, Endpointer, Phase, Rule
from pipeline.events import NoticeCode
from pipeline.ports import CAPTURE_RATE, Chunk, Samples, Vad
from pipeline.ring import Capture, Ring
from pipeline.settings import Settings

PREROLL_S = 0.3  # audio kept from before the detected start: soft first consonants
CLIPPED_SHARE = 0.02  # of a chunk's samples; a single full-scale peak is no clipping
SILENCE_NOTICE_S = 60.0


@dataclass(frozen=True, slots=True)
class Began:
    at: float  # arrival of the first voiced sample
    capture: Capture


@dataclass(frozen=True, slots=True)
class More:
    """Time to refresh the live transcript."""

    upto: int  # samples of the capture


@dataclass(frozen=True, slots=True)
class Quiet:
    end_at: float  # arrival of the last voiced sample
    upto: int


@dataclass(frozen=True, slots=True)
class Again:
    at: float


@dataclass(frozen=True, slots=True)
class Over:
    end_at: float
    waited_ms: int
    capped: bool
    upto: int


@dataclass(frozen=True, slots=True)
class Stir:
    """Perhaps the caller's voice; nobody knows yet."""


@dataclass(frozen=True, slots=True)
class Odd:
    """Something in the audio that the visitor should know."""

    notice: NoticeCode


Turning: TypeAlias = Began | More | Quiet | Again | Over | Stir | Odd


def rule_of(settings: Settings) -> Rule:
    """The endpointing tunables out of the settings."""
    return Rule(
        start_ms=settings.speech_start_ms,
        pause_ms=settings.draft_after_ms,
        floor_ms=settings.endpoint_floor_ms,
        ceiling_ms=settings.endpoint_ceiling_ms,
        threshold=settings.vad_threshold,
        longest_s=float(settings.max_utterance_s),
    )


class Listening:
    """One visitor's ear. Used by the listen thread; `level`, `speaking` and `endpointer.expect` by others too."""

    def __init__(self, vad: Vad, settings: Callable[[], Settings]) -> None:
        self._vad = vad
        self._stream = vad.stream()
        self._settings = settings
        self.endpointer = Endpointer()
        self.ring = Ring()
        self.level = SILENT_DBFS
        self._loose: Samples = np.zeros(0, np.float32)  # samples short of a 10 ms frame
        self._vad_frame = np.zeros(vad.frame_samples, np.float32)
        self._vad_filled = 0
        self._probability = 0.0
        self._arrivals: deque[tuple[int, float]] = deque(maxlen=512)  # position after a chunk, its arrival
        self._position = 0  # samples framed so far
        self._capture: Capture | None = None
        self._shown = 0  # samples of the capture the live transcript covers
        self._quiet_frames = 0
        self._told: set[NoticeCode] = set()

    @property
    def speaking(self) -> bool:
        return self.endpointer.phase is Phase.SPEAKING

    def reset(self) -> None:
        """Forget the utterance under way."""
        self.endpointer.reset()
        self._capture = None
        self._told.clear()

    def hear(self, chunk: Chunk) -> Iterator[Turning]:
        """What this chunk brings about, in order."""
        samples, odd = cleaned(chunk.samples)
        yield from self._once(odd)
        self.ring.write(samples)
        self._arrivals.append((self.ring.written, chunk.at))
        self._loose = np.concatenate((self._loose, samples)) if len(self._loose) else samples
        whole = len(self._loose) // FRAME_SAMPLES * FRAME_SAMPLES
        frames, self._loose = self._loose[:whole], self._loose[whole:]
        rule = rule_of(self._settings())
        for start in range(0, whole, FRAME_SAMPLES):
            yield from self._frame(frames[start : start + FRAME_SAMPLES], rule)

    def _frame(self, frame: Samples, rule: Rule) -> Iterator[Turning]:
        self._position += FRAME_SAMPLES
        self._feed_vad(frame)
        self.level = dbfs(frame)
        if self._capture is not None:
            self._capture.append(frame)
        for signal in self.endpointer.hear(self.level, self._probability, rule):
            yield self._turning(signal)
        yield from self._due()

    def _feed_vad(self, frame: Samples) -> None:
        size = self._vad.frame_samples
        while len(frame):
            count = min(len(frame), size - self._vad_filled)
            self._vad_frame[self._vad_filled : self._vad_filled + count] = frame[:count]
            self._vad_filled += count
            frame = frame[count:]
            if self._vad_filled == size:
                self._probability = self._stream.probability(self._vad_frame)
                self._vad_filled = 0

    def _turning(self, signal: endpoint.Signal) -> Turning:
        match signal:
            case endpoint.Started(frame):
                start = frame * FRAME_SAMPLES
                # The ring may be up to a loose frame ahead of what has been framed.
                ahead = self.ring.written - self._position
                audio = self.ring.since(start - round(PREROLL_S * CAPTURE_RATE))
                self._capture = Capture(self._settings().max_utterance_s + 2.0)
                self._capture.append(audio[: len(audio) - ahead] if ahead else audio)
                self._shown = 0
                self._quiet_frames = 0
                return Began(self._arrival(start), self._capture)
            case endpoint.Paused(last):
                return Quiet(self._arrival((last + 1) * FRAME_SAMPLES), self._length())
            case endpoint.Resumed(frame):
                self._shown = self._length()
                return Again(self._arrival(frame * FRAME_SAMPLES))
            case endpoint.Stirred():
                return Stir()
            case endpoint.Ended(last, waited, capped):
                over = Over(self._arrival((last + 1) * FRAME_SAMPLES), waited, capped, self._length())
                self._capture = None
                self._told.clear()
                return over

    def _due(self) -> Iterator[Turning]:
        if self._capture is None:
            self._quiet_frames += 1
            if self._quiet_frames * endpoint.FRAME_MS == SILENCE_NOTICE_S * 1000:
                yield Odd(NoticeCode.SILENCE)
            return
        every = self._settings().partial_every_ms * CAPTURE_RATE // 1000
        if self.speaking and self._length() - self._shown >= every:
            self._shown = self._length()
            yield More(self._shown)

    def _once(self, odd: NoticeCode | None) -> Iterator[Turning]:
        # A broken microphone is told once an utterance, not fifty times a second.
        if odd is not None and odd not in self._told:
            self._told.add(odd)
            yield Odd(odd)

    def _length(self) -> int:
        return 0 if self._capture is None else self._capture.length

    def _arrival(self, position: int) -> float:
        """When the sample before `position` arrived: a chunk's samples are spread evenly before its arrival."""
        for end, at in self._arrivals:
            if end >= position:
                return at - (end - position) / CAPTURE_RATE
        end, at = self._arrivals[-1]
        return at - (end - position) / CAPTURE_RATE


def cleaned(samples: Samples) -> tuple[Samples, NoticeCode | None]:
    """Samples fit to listen to, and what was wrong with them: NaN and infinity become silence, the rest is clipped."""
    peak = float(np.max(np.abs(samples))) if len(samples) else 0.0
    if peak < FULL_SCALE:  # False for NaN too
        return samples, None
    fixed, broken = clean(samples)
    if broken:
        return fixed, NoticeCode.AUDIO_REPAIRED
    return fixed, NoticeCode.AUDIO_CLIPPED if clipped_share(fixed) >= CLIPPED_SHARE else None
