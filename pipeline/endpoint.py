"""Endpointing in audio time: when the caller began, paused, went on and finished. Pure: no clock, no threads.

Two witnesses are combined. Energy, every 10 ms, sees the end of speech at once but takes noise for speech; the VAD
knows speech from noise but still says "speech" some 100 ms after it ended. A frame is voiced only when both agree,
so the end is dated by whichever falls first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

FRAME_MS = 10
FRAME_SAMPLES = 160  # 10 ms at 16 kHz

# The end rule of the callers' manifest: within 35 dB of the loudest. What is softer nobody hears as speech.
RANGE_DB = 35.0
NOISE_MARGIN_DB = 7.0  # above the noise floor; a 10 ms window of steady noise stays within 2 dB of its mean
RESUME_MARGIN_DB = 4.0  # extra, so that a breath or a lip click does not undo a pause
RESUME_FRAMES = 3
RECENT_MS = 2000  # after an endpoint a voice is probably the same caller, who had not finished after all
SAME_VOICE_DB = 18.0  # ... if it is this near to their loudest: an echo of the reply is softer
STIR_DB = 12.0  # a single frame this near to the caller's loudest may be their voice, before the VAD has seen enough
STIR_P = 0.05  # ... and a softer one, when the VAD does not rule it out
SURE = 0.9  # P(finished) from which on nothing more is waited for
FLOOR_START_DB = -62.0
FLOOR_FALL = 0.3  # share of the way down per frame: quick, silence is short
FLOOR_RISE_DB = 0.005  # per frame, 0.5 dB/s: slow, speech must not lift it
FLOOR_UNDER_PEAK_DB = 20.0  # ... and never to its own level, however long somebody speaks without a pause
PEAK_START_DB = -50.0


class Phase(Enum):
    IDLE = auto()
    SPEAKING = auto()
    PAUSED = auto()


class Heard(Enum):
    """What one frame meant; the alphabet of NEXT."""

    START = auto()  # enough speech in a row
    QUIET = auto()  # enough silence in a row for a pause
    VOICE = auto()  # enough speech in a row to go on after a pause
    WAITED = auto()  # the pause lasted as long as it may
    CAP = auto()  # the utterance is as long as it may be


@dataclass(frozen=True, slots=True)
class Started:
    frame: int  # the first voiced frame


@dataclass(frozen=True, slots=True)
class Paused:
    last_voiced: int  # the frame after which it was quiet


@dataclass(frozen=True, slots=True)
class Resumed:
    frame: int


@dataclass(frozen=True, slots=True)
class Ended:
    last_voiced: int
    waited_ms: int  # silence counted until the decision
    capped: bool  # the utterance reached its longest allowed length


@dataclass(frozen=True, slots=True)
class Stirred:
    """Perhaps a voice, after an utterance: evidence enough to hold one's breath, not to give up the floor."""

    frame: int


Signal: TypeAlias = Started | Paused | Resumed | Ended | Stirred

NEXT: dict[tuple[Phase, Heard], Phase] = {
    (Phase.IDLE, Heard.START): Phase.SPEAKING,
    (Phase.SPEAKING, Heard.QUIET): Phase.PAUSED,
    (Phase.SPEAKING, Heard.CAP): Phase.IDLE,
    (Phase.PAUSED, Heard.VOICE): Phase.SPEAKING,
    (Phase.PAUSED, Heard.WAITED): Phase.IDLE,
    (Phase.PAUSED, Heard.CAP): Phase.IDLE,
}


@dataclass(frozen=True, slots=True)
class Rule:
    """The tunables of endpointing; taken from Settings at each frame, so a slider acts at once."""

    start_ms: int = 64
    pause_ms: int = 40  # silence that makes a pause
    floor_ms: int = 100  # silence waited for from P(finished) = SURE on
    ceiling_ms: int = 950  # ... at P(finished) = 0 or unknown
    threshold: float = 0.5  # P(speech) that starts a turn
    longest_s: float = 30.0

    @property
    def release(self) -> float:
        """P(speech) under which a frame is not speech whatever its energy. Lower than the start: hysteresis."""
        return max(self.threshold - 0.25, 0.05)

    def wait_ms(self, p_finished: float | None) -> float:
        """Silence to wait for: the ceiling at 0 or while nothing is known, linear to the floor at SURE."""
        p = 0.0 if p_finished is None else min(max(p_finished / SURE, 0.0), 1.0)
        return self.ceiling_ms - (self.ceiling_ms - self.floor_ms) * p


class Levels:
    """Noise floor and speech peak, in dBFS, from the 10 ms levels."""

    def __init__(self) -> None:
        self.floor = FLOOR_START_DB
        self.peak = PEAK_START_DB

    def hear(self, level: float, speech: bool) -> None:
        if level < self.floor:
            self.floor += FLOOR_FALL * (level - self.floor)
        elif not speech:
            # Known noise: follow it quickly enough to be ready before the next word.
            self.floor += min(0.1 * (level - self.floor), 0.5)
        elif self.floor < self.peak - FLOOR_UNDER_PEAK_DB:
            self.floor += FLOOR_RISE_DB
        if speech and level > self.peak:
            self.peak = level

    def forget_peak(self) -> None:
        """The next speaker may be softer."""
        self.peak = PEAK_START_DB

    @property
    def threshold(self) -> float:
        """Level above which a frame has energy enough to be speech."""
        return max(self.floor + NOISE_MARGIN_DB, self.peak - RANGE_DB)


class Endpointer:
    """Feed it every 10 ms frame; it answers with what changed."""

    def __init__(self) -> None:
        self.phase = Phase.IDLE
        self.levels = Levels()
        self.frame = -1  # index of the frame heard last
        self.p_finished: float | None = None
        self._first = self._last_voiced = -1
        self._run = 0  # voiced frames in a row
        self._ended, self._ended_peak = -RECENT_MS, 0.0  # the frame of the last endpoint; dBFS of that caller
        self._stirring = False
        self._calm = False  # the VAD has let go of that caller's last word

    def expect(self, p_finished: float) -> None:
        """What the turn model says of the current pause."""
        self.p_finished = p_finished

    def reset(self) -> None:
        """Forget the utterance under way (the floor went to somebody else); levels stay."""
        self.phase = Phase.IDLE
        self._run = 0
        self.p_finished = None
        self.levels.forget_peak()

    @property
    def quiet_ms(self) -> int:
        return (self.frame - self._last_voiced) * FRAME_MS

    def hear(self, level: float, probability: float, rule: Rule) -> list[Signal]:
        """One 10 ms frame: its RMS level in dBFS and the VAD's latest P(speech)."""
        self.frame += 1
        speech = probability >= rule.release
        stirred = self._stirs(level, probability)
        margin = RESUME_MARGIN_DB if self.phase is Phase.PAUSED else 0.0
        voiced = speech and level > self.levels.threshold + margin
        self.levels.hear(level, probability >= rule.threshold)
        if self.phase is Phase.IDLE:
            voiced = voiced and (probability >= rule.threshold or self._goes_on(level))
        self._run = self._run + 1 if voiced else 0
        heard = self._meaning(voiced, level, rule)
        if heard is not None:
            return [self._move(heard)]
        return [Stirred(self.frame)] if stirred else []

    def _stirs(self, level: float, probability: float) -> bool:
        """Whether something begins that may be the caller's voice. Once for each sound, however long."""
        after_speech = self.phase is Phase.IDLE and self._ended >= 0
        doubt = self._calm and probability >= STIR_P
        self._calm = after_speech and (self._calm or probability < STIR_P)
        near = doubt or level > self._ended_peak - STIR_DB
        stirring = after_speech and near and level > self.levels.threshold + RESUME_MARGIN_DB
        begins, self._stirring = stirring and not self._stirring, stirring
        return begins

    def _goes_on(self, level: float) -> bool:
        """Whether this may be the caller who was answered too early: then a resumption's evidence is enough."""
        recent = (self.frame - self._ended) * FRAME_MS <= RECENT_MS
        return recent and level > self._ended_peak - SAME_VOICE_DB

    def _meaning(self, voiced: bool, level: float, rule: Rule) -> Heard | None:
        if self.phase is Phase.IDLE:
            needed = RESUME_FRAMES * FRAME_MS if self._goes_on(level) else rule.start_ms
            return Heard.START if voiced and self._run * FRAME_MS >= min(needed, rule.start_ms) else None
        if voiced and (self.phase is Phase.SPEAKING or self._run >= RESUME_FRAMES):
            self._last_voiced = self.frame
        if (self.frame - self._first) * FRAME_MS >= rule.longest_s * 1000:
            return Heard.CAP
        if self.phase is Phase.SPEAKING:
            return Heard.QUIET if self.quiet_ms >= rule.pause_ms else None
        if self._run >= RESUME_FRAMES:
            return Heard.VOICE
        # A wait is only over when the voice has not just come back: two voiced frames are a doubt.
        return Heard.WAITED if self._run == 0 and self.quiet_ms >= rule.wait_ms(self.p_finished) else None

    def _move(self, heard: Heard) -> Signal:
        waited = self.quiet_ms
        self.phase = NEXT[self.phase, heard]
        if heard is Heard.START:
            self._first = self.frame - self._run + 1
            self._last_voiced = self.frame
            self.p_finished = None
            return Started(self._first)
        if heard is Heard.QUIET:
            self.p_finished = None
            return Paused(self._last_voiced)
        if heard is Heard.VOICE:
            return Resumed(self.frame - self._run + 1)
        last = self._last_voiced
        self._ended, self._ended_peak = self.frame, self.levels.peak
        self.reset()
        return Ended(last, waited, capped=heard is Heard.CAP)
