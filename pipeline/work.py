"""What the stages of a session do with one item: recognise, judge, think, speak. Generators without any state of the
session but what they are given; they release their engine's iterator when closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from pipeline.audio import to_int16
from pipeline.errors import Code, EngineError
from pipeline.meaning import END_MARKS
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
from pipeline.spoken import Language, language, spoken
from pipeline.turn import Tag
from pipeline.unsaid import said as worded

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
    tag: Tag  # of the reply
    text: str
    weigh: Tag | None = None  # weigh the words first, for what listens under this tag: their prefill is the reply's too
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
    emotion: str = ""  # how the caller sounded; "" where it is not known


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


Thought: TypeAlias = Text | Say | Cut | Last | Weighed
Spoken: TypeAlias = Sound | Last


@dataclass(slots=True)
class Recogniser:
    """Keeps the Hearing of the utterance under way; used by the recognise thread alone."""

    asr: Asr
    language: Callable[[], str] = lambda: ""  # what the next utterance is listened to with
    _capture: Capture | None = None
    _hearing: Hearing | None = None
    _fed: int = 0

    def work(self, request: Recognise) -> Iterator[Recognised]:
        hearing = self._hearing_of(request.capture)
        if request.upto > self._fed:
            # A copy: an engine may keep what it is fed, and the capture goes with the turn.
            hearing.feed(request.capture.between(self._fed, request.upto).copy())
            self._fed = request.upto
        ask = hearing.finish if request.final else hearing.settled if request.stable else hearing.partial
        text = ask().strip()
        yield Recognised(request, text, hearing.emotion)

    def _hearing_of(self, capture: Capture) -> Hearing:
        if self._hearing is None or self._capture is not capture:
            self._hearing, self._capture, self._fed = self.asr.listen(self.language()), capture, 0
        return self._hearing


def judge(request: Judge, model: Turnmodel) -> Iterator[Judged]:
    """P(finished) of what was said so far."""
    start = request.upto - round(JUDGED_S * CAPTURE_RATE)
    speech: Samples = request.capture.between(start, request.upto)
    yield Judged(request.tag, model.finished(speech))


@dataclass(slots=True)
class Scales:
    """Weighs words. The weigh and the think thread share it: what is remembered is replaced as a whole.

    While the caller speaks it follows the partial transcript, so that of the final one only the last words are left to
    prefill; the last answer is kept, since often nothing was added.
    """

    llm: Llm
    _last: tuple[str, float | None] = ("", None)

    def weigh(self, request: Weigh, opening: Sequence[Message]) -> Iterator[Weighed]:
        """P(the words are whole); nothing when the words are not the last ones."""
        words = request.said.rstrip(END_MARKS)
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
    shortest: int = 1,
) -> Iterator[Thought]:
    """The reply as text and as phrases to speak. Raises EngineError LLM_EMPTY when there is nothing to say.

    `shortest`: what the voice needs of a phrase, `Tts.shortest`.
    """
    splitter = Splitter(first_words, shortest)
    pieces = llm.reply(messages, cancel, limits)
    said: list[Say] = []
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
        if speakable(worded(phrase)):
            say = Say(request.tag, len(said) + 1, phrase, request.whole)  # 0 is the opener's
            said.append(say)
            yield say


def recite(request: Think, words: str) -> Iterator[Thought]:
    """A reply that is known beforehand, as one phrase: so the voice finds it among what it has prepared."""
    yield Text(request.tag, words)
    yield Say(request.tag, 1, words)
    yield Last(request.tag)


def whole_reply(thoughts: Iterator[Thought]) -> Iterator[Thought]:
    """Serial mode: nothing is handed on before the model has finished, and then as one phrase."""
    held = list(thoughts)
    yield from (t for t in held if isinstance(t, Text | Cut | Weighed))
    says = [t for t in held if isinstance(t, Say)]
    if says:
        yield Say(says[0].tag, 1, " ".join(s.text for s in says), whole=True)
        yield Last(says[0].tag)


@dataclass(slots=True)
class Voice:
    """One visitor's voice and the phrases it has prepared; but for `ready`, used by the speak thread alone.

    The engine is given a phrase as it is to be said; phrases are known by what is written.
    """

    tts: Tts
    _prepared: dict[tuple[str, Style], Pcm16] = field(default_factory=dict)
    _language: Language = "en"  # of the last phrase with words in it: how a bare number is read

    def prepare(self, request: Prepare, style: Style, cancel: Cancel) -> Iterator[Sound]:
        """Make what is not in the cache yet. Yields nothing."""
        for text in request.texts:
            if (text, style) in self._prepared or cancel():
                continue
            sounds = [sound.samples for sound in self._speak(Say(Tag(0), 0, text), style, cancel)]
            if sounds and not cancel():
                self._prepared[text, style] = np.concatenate(sounds)
        yield from ()

    def say(self, say: Say, style: Style, cancel: Cancel) -> Iterator[Sound]:
        """The phrase, out of the cache if it is there."""
        ready = self.ready(say.text, style)
        if ready is None:
            return self._speak(say, style, cancel)
        return iter((Sound(say.tag, say.index, ready, cached=True),))

    def ready(self, text: str, style: Style) -> Pcm16 | None:
        """Its audio, if it was prepared. From any thread."""
        return self._prepared.get((text, style))

    def _speak(self, say: Say, style: Style, cancel: Cancel) -> Iterator[Sound]:
        self._language = language(say.text, self._language)
        text = spoken(say.text, self._language, numbers=not reads_numbers(self.tts))
        return speak(replace(say, text=text), self.tts, style, cancel) if text else iter(())


def reads_numbers(tts: Tts) -> bool:
    """Whether this engine's own front end reads numbers well: it says so by `reads_numbers = True`."""
    return bool(getattr(tts, "reads_numbers", False))


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
