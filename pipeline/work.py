"""What the stages of a session do with one item: recognise, judge, think, speak. Generators without any state of the
session but what they are given; they release their engine's iterator when closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from pipeline.audio import to_int16
from pipeline.errors import Code, EngineError
from pipeline.phrases import Splitter, sentence_count, speakable
from pipeline.playout import Pcm16
from pipeline.ports import (
    CAPTURE_RATE,
    PLAYOUT_RATE,
    Asr,
    Cancel,
    Hearing,
    Llm,
    Message,
    ReplyLimits,
    Samples,
    Style,
    Tts,
    Turnmodel,
)
from pipeline.ring import Capture
from pipeline.turn import Tag

JUDGED_S = 8.0  # what turn models look at
RUNAWAY = 4  # pieces per allowed token after which a model that ignores its limit is stopped

# -- what the stages are asked to do


@dataclass(frozen=True, slots=True)
class Recognise:
    tag: Tag
    capture: Capture
    upto: int  # samples of the capture
    stable: bool  # the caller is silent: the text may become the turn's transcript
    final: bool = False  # the turn is committed: nothing will follow


@dataclass(frozen=True, slots=True)
class Judge:
    tag: Tag
    capture: Capture
    upto: int


@dataclass(frozen=True, slots=True)
class Think:
    tag: Tag
    text: str
    opener: str = ""  # spoken before the reply itself
    whole: bool = False  # serial mode: the whole reply before its first phrase is handed on


@dataclass(frozen=True, slots=True)
class Weigh:
    """Whether the words alone are a whole."""

    tag: Tag
    said: str
    ahead: bool = False  # the caller still speaks: only the prefill matters, the answer is for later


@dataclass(frozen=True, slots=True)
class Warm:
    """Prepare the language model for another scenario."""

    prefix: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Prepare:
    """Phrases to have in the cache."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Say:
    """One phrase of a reply."""

    tag: Tag
    index: int
    text: str
    whole: bool = False  # serial mode: the whole phrase before its first sample is handed on


@dataclass(frozen=True, slots=True)
class Last:
    """No more phrases."""

    tag: Tag


# -- what they answer


@dataclass(frozen=True, slots=True)
class Recognised:
    request: Recognise
    text: str


@dataclass(frozen=True, slots=True)
class Judged:
    """What the turn model says of the sound."""

    tag: Tag
    sound: float


@dataclass(frozen=True, slots=True)
class Weighed:
    """What the language model says of the words."""

    tag: Tag
    text: float | None


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the reply for the page."""

    tag: Tag
    text: str


@dataclass(frozen=True, slots=True)
class Opened:
    """The reply begins with words that no model made."""

    tag: Tag
    text: str


@dataclass(frozen=True, slots=True)
class Cut:
    """The reply reached its limit in the middle of a sentence."""

    tag: Tag


@dataclass(frozen=True, slots=True)
class Sound:
    """Audio of one phrase, 48 kHz."""

    tag: Tag
    phrase: int
    samples: Pcm16
    cached: bool = False


Thought: TypeAlias = Opened | Text | Say | Cut | Last | Weighed
Spoken: TypeAlias = Sound | Last


@dataclass(slots=True)
class Recogniser:
    """Keeps the Hearing of the utterance under way; used by the recognise thread alone."""

    asr: Asr
    _capture: Capture | None = None
    _hearing: Hearing | None = None
    _fed: int = 0

    def work(self, request: Recognise) -> Iterator[Recognised]:
        hearing = self._hearing_of(request.capture)
        if request.upto > self._fed:
            # A copy: an engine may keep what it is fed, and the capture goes with the turn.
            hearing.feed(request.capture.between(self._fed, request.upto).copy())
            self._fed = request.upto
        text = hearing.finish() if request.final else hearing.partial()
        yield Recognised(request, text.strip())

    def _hearing_of(self, capture: Capture) -> Hearing:
        if self._hearing is None or self._capture is not capture:
            self._hearing, self._capture, self._fed = self.asr.listen(), capture, 0
        return self._hearing


def judge(request: Judge, model: Turnmodel) -> Iterator[Judged]:
    """P(finished) of what was said so far."""
    start = request.upto - round(JUDGED_S * CAPTURE_RATE)
    speech: Samples = request.capture.between(start, request.upto)
    yield Judged(request.tag, model.finished(speech))


@dataclass(slots=True)
class Scales:
    """Weighs words; used by the think thread alone.

    While the caller speaks it follows the partial transcript, so that of the final one only the last words are left to
    prefill; the last answer is kept, since often nothing was added.
    """

    llm: Llm
    _last: tuple[str, float | None] = ("", None)

    def weigh(self, request: Weigh, opening: Sequence[Message]) -> Iterator[Weighed]:
        """P(the words are whole); nothing when the words are not the last ones."""
        words = request.said.rstrip(" .,?!;:，。？！；：…")
        if words != self._last[0]:
            self._last = (words, self.llm.completeness(opening, request.said))
        if not request.ahead:
            yield Weighed(request.tag, self._last[1])


def think(
    request: Think,
    llm: Llm,
    messages: Sequence[Message],
    limits: ReplyLimits,
    max_sentences: int,
    first_words: int,
    cancel: Cancel,
) -> Iterator[Thought]:
    """The reply as text and as phrases to speak. Raises EngineError LLM_EMPTY when there is nothing to say."""
    splitter = Splitter(first_words)
    pieces = llm.reply(messages, cancel, limits)
    said: list[Say] = []  # but for the opener
    text, count = "", 0
    try:
        for piece in pieces:
            count += 1
            text += piece
            yield Text(request.tag, piece)
            phrases = splitter.feed(piece)
            yield from _say(request, phrases, said)
            if sentence_count(" ".join(s.text for s in said)) >= max_sentences:
                break
            if count >= limits.max_tokens * RUNAWAY:
                yield Cut(request.tag)
                break
        else:
            yield from _rest(request, splitter, said, limited=count >= limits.max_tokens)
    finally:
        _close(pieces)
    if cancel():
        return
    if not said:
        what = "only signs that cannot be spoken" if text.strip() else "no text"
        raise EngineError(Code.LLM_EMPTY, f"the language model answered {what}", "ask again or choose another model")
    yield Last(request.tag)


def open_with(request: Think) -> Iterator[Thought]:
    """The opener, as the reply's first phrase."""
    if request.opener:
        yield Opened(request.tag, request.opener)
        yield Say(request.tag, 0, request.opener)


def _rest(request: Think, splitter: Splitter, said: list[Say], limited: bool) -> Iterator[Thought]:
    """What the splitter still holds; half a sentence cut off by the limit is left unsaid when a whole one stands."""
    held = splitter.flush()
    if limited and held and not sentence_count(held[-1]):
        yield Cut(request.tag)
        if sentence_count(" ".join(s.text for s in said)):
            held = held[:-1]
    yield from _say(request, held, said)


def _say(request: Think, phrases: Sequence[str], said: list[Say]) -> Iterator[Say]:
    for phrase in phrases:
        if speakable(phrase):
            say = Say(request.tag, len(said) + bool(request.opener), phrase, request.whole)
            said.append(say)
            yield say


def whole_reply(thoughts: Iterator[Thought]) -> Iterator[Thought]:
    """Serial mode: nothing is handed on before the model has finished, and then as one phrase."""
    held = list(thoughts)
    yield from (t for t in held if isinstance(t, Text | Cut | Weighed))
    says = [t for t in held if isinstance(t, Say)]
    if says:
        yield Say(says[0].tag, 0, " ".join(s.text for s in says), whole=True)
        yield Last(says[0].tag)


@dataclass(slots=True)
class Voice:
    """One visitor's voice and the phrases it has prepared; used by the speak thread alone."""

    tts: Tts
    _prepared: dict[tuple[str, Style], Pcm16] = field(default_factory=dict)

    def prepare(self, request: Prepare, style: Style, cancel: Cancel) -> Iterator[Sound]:
        """Make what is not in the cache yet. Yields nothing."""
        for text in request.texts:
            if (text, style) in self._prepared or cancel():
                continue
            sounds = [sound.samples for sound in speak(Say(Tag(0), 0, text), self.tts, style, cancel)]
            if sounds and not cancel():
                self._prepared[text, style] = np.concatenate(sounds)
        yield from ()

    def say(self, say: Say, style: Style, cancel: Cancel) -> Iterator[Sound]:
        """The phrase, out of the cache if it is there."""
        ready = self._prepared.get((say.text, style))
        if ready is None:
            return speak(say, self.tts, style, cancel)
        return iter((Sound(say.tag, say.index, ready, cached=True),))


def speak(say: Say, tts: Tts, style: Style, cancel: Cancel) -> Iterator[Sound]:
    """The phrase's audio at the playout's rate."""
    resample = _resampler(tts.rate)
    pieces = tts.speak(say.text, style, cancel)
    held: list[Samples] = []
    try:
        for piece in pieces:
            if say.whole:
                held.append(piece)
            elif len(out := resample(piece, False)):
                yield Sound(say.tag, say.index, out)
        for piece in held:
            if len(out := resample(piece, False)):
                yield Sound(say.tag, say.index, out)
        if len(out := resample(np.zeros(0, np.float32), True)):
            yield Sound(say.tag, say.index, out)
    finally:
        _close(pieces)


def _resampler(rate: int) -> Callable[[Samples, bool], Pcm16]:
    import soxr

    if rate == PLAYOUT_RATE:
        return lambda samples, last: to_int16(samples)
    # MQ: enough for a voice, and less delay in the filter than the default.
    stream = soxr.ResampleStream(rate, PLAYOUT_RATE, 1, dtype="float32", quality="MQ")
    return lambda samples, last: to_int16(stream.resample_chunk(samples, last=last))


def _close(pieces: Iterator[object]) -> None:
    close = getattr(pieces, "close", None)
    if close is not None:
        close()
