"""One visitor's session: the threads around a conversation.

    hear() -> listen (VAD, endpoint) -> recognise (ASR) -> think (LLM) -> speak (TTS) -> playout -> pull()
                       \\-> judge (turn model) -> endpoint

Recognition and the turn model run at every pause; the reply is drafted from there and waits behind the playout's gate
until the endpoint opens it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

from pipeline import canned, openers, work
from pipeline.clock import Clock, SystemClock
from pipeline.conversation import Conversation
from pipeline.digits import Expected
from pipeline.errors import Code, TurnaroundError
from pipeline.events import Event, NoticeCode, Snapshot
from pipeline.listen import Again, Began, Listening, More, Odd, Over, Quiet, Stir, Turning
from pipeline.manners import MANNERS
from pipeline.meaning import alike, turned
from pipeline.playout import Pcm16
from pipeline.ports import Chunk, Engines, Message, ReplyLimits, Style
from pipeline.scenario import CannedKind, Scenario, load, spoken_by
from pipeline.settings import Settings
from pipeline.stage import Stage, WhenFull
from pipeline.turn import Tag
from pipeline.watch import LATE_SLOT_S, Meter, Watchdog

CAPTURE_QUEUE = 200  # chunks: two seconds at 10 ms
THOUGHTS = (
    8  # replies and preparations asked for; what is outdated is passed over, so nothing current is ever pushed out
)
FRAGMENTS = 10  # phrases of LLM text waiting for the voice
CONNECTED_S = 1.0
PATIENCE_S = 0.02  # between two tries to hand a phrase to a busy voice
JOIN_S = 0.5


class Session:
    """See the module. Every public method may be called from any thread; hear and pull never block."""

    def __init__(
        self,
        engines: Engines,
        settings: Settings,
        clock: Clock | None = None,
        scenario: Scenario | None = None,
        serial: bool = False,
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self.engines, self.serial = engines, serial
        self._settings = settings
        self._scenario = spoken_by(scenario or load(settings.scenario), settings.manner)
        self.conversation = Conversation(self.clock, self, serial)
        self._floor = self.conversation.floor
        self._heard_at = float("-inf")
        self._closed = False
        self._weighing_s = 0.0  # the last weighing of running speech
        self._listening = Listening(engines.vad, lambda: self._settings)
        self._recogniser = work.Recogniser(engines.asr, self._language)
        self._voice = work.Voice(engines.tts)
        self._scales = work.Scales(engines.llm)
        self._meter = Meter(self.clock)
        self._make_stages()
        self._looked_at = self.clock.now()
        self._watchdog = Watchdog(self.clock, self._look)

    def _make_stages(self) -> None:
        make = partial(Stage[Any, Any], clock=self.clock)
        latest = WhenFull.LATEST
        failing = self._failing
        self._listen = make(
            "listen",
            self._hear,
            self._turn,
            self._listen_failed,
            capacity=CAPTURE_QUEUE,
            when_full=WhenFull.DROP_OLDEST,
        )
        self._recognise = make(
            "recognise", self._hearken, self._recognised, failing(Code.ASR_FAILED), capacity=1, when_full=latest,
            taken=self._waited,
        )  # fmt: skip
        self._judge = make(
            "judge", self._judge_sound, self.conversation.judged, ignore, capacity=1, when_full=latest, nice=JUDGE_NICE
        )
        self._weigh = make(
            "weigh", self._weigh_words, self._weighed, ignore, capacity=1, when_full=latest, done=self._weighing_took
        )
        self._think = make(
            "think", self._ponder, self._thought, failing(Code.LLM_FAILED), capacity=THOUGHTS, when_full=latest,
            taken=self._waited, done=self._thought_over, nice=REPLY_NICE,
        )  # fmt: skip
        self._speak = make(
            "speak",
            self._utter,
            self.conversation.spoken,
            failing(Code.TTS_FAILED),
            capacity=FRAGMENTS,
            when_full=WhenFull.REFUSE,
            taken=self._waited,
            done=self._uttered,
            nice=REPLY_NICE,
        )
        self._stages = (self._listen, self._recognise, self._judge, self._weigh, self._think, self._speak)

    # -- the outside

    @property
    def settings(self) -> Settings:
        return self._settings

    def start(self) -> Session:
        """Begin: threads run from here on."""
        for stage in self._stages:
            stage.start()
        self._watchdog.start()
        self._warm()
        return self

    def close(self) -> None:
        """End the threads; a turn under way ends as interrupted. Idempotent."""
        with self._floor.lock:
            if self._closed:
                return
            self._closed = True
            self.conversation.leave()
        for stage in self._stages:
            stage.close()
        self._watchdog.close()
        for stage in self._stages:
            stage.join(JOIN_S)

    def hang_up(self) -> None:
        """The line is gone (STOP, a lost connection): what was under way ends as interrupted; the session stays."""
        self.conversation.leave()
        self._listening = Listening(self.engines.vad, lambda: self._settings)

    def hear(self, chunk: Chunk) -> None:
        """Captured audio. Anything but a non-empty one-dimensional array is ignored."""
        if self._closed or chunk.samples.ndim != 1 or not len(chunk.samples):
            return
        self._heard_at = chunk.at
        self._listen.post(chunk)

    def pull(self, n: int) -> Pcm16:
        """The next n samples for the visitor: int16 mono at 48 kHz, shape (n,)."""
        return self.conversation.pull(n)

    def slot(self, late_s: float) -> None:
        """The transport reports how late an outbound frame left, in seconds."""
        late = late_s > LATE_SLOT_S
        self._meter.slot(late)
        if late:
            self.conversation.late_slot()

    def downlink(self, ms: float) -> None:
        """From the browser's statistics: what lies between leaving here and being heard."""
        self.conversation.downlink_s = ms / 1e3

    def apply(self, settings: Settings) -> None:
        """New settings, at once. Another scenario also starts with an empty history."""
        scenario = spoken_by(load(settings.scenario), settings.manner)
        with self._floor.lock:
            old, self._settings = self._settings, settings
            changed = settings.scenario != old.scenario
            if changed:
                self.conversation.history.clear()
            self._scenario = scenario
        if changed or any(getattr(settings, n) != getattr(old, n) for n in PREPARED_BY):
            self._warm()

    def snapshot(self) -> Snapshot:
        now = self.clock.now()
        here = Snapshot(
            version=0,
            at=now,
            level_dbfs=self._listening.level,
            speaking=self._listening.speaking,
            connected=now - self._heard_at < CONNECTED_S,
            turns=(),
            dropped_chunks=self._listen.inbox.dropped,
            load=self._meter.load(),
        )
        return self.conversation.fill(here)

    def events(self, since: int = 0) -> tuple[list[Event], int]:
        """The events from index `since` on (those still kept), and the index to ask for next."""
        return self.conversation.events(since)

    # -- what the conversation asks for

    def recognise(self, request: work.Recognise) -> None:
        self._recognise.post(request)

    def judge(self, request: work.Judge) -> None:
        if self.engines.turn_model is not None:
            self._judge.post(request)

    def expect(self, p_finished: float) -> None:
        self._listening.endpointer.expect(p_finished)

    def weigh(self, request: work.Weigh) -> None:
        self._weigh.post(request)

    def reply(self, request: work.Think) -> None:
        self._think.post(request)

    def note(self, said: str) -> str:
        return self._scenario.fact_for(said) if self._settings.draft and self._settings.draft_early else ""

    def keeps_pace(self) -> bool:
        return self._weighing_s <= self._settings.partial_every_ms / 1e3

    def stands(self, answered: str, said: str) -> bool:
        if alike(answered, said):
            return True
        note = self.note(answered)
        return bool(note) and note == self.note(said) and not turned(answered, said)

    def expected(self) -> Sequence[Expected]:
        return self._scenario.expected

    def opener(self, said: str, last: str) -> tuple[str, Pcm16] | None:
        # A reply out of the cache is about to be there, and whole.
        if not self._prepared_words or self._prepared_reply(said, self._history()):
            return None
        words = openers.load(self._scenario.language).choose(said, last)
        sound = self._voice.ready(words, self._style())
        return None if sound is None else (words, sound)

    def canned(self, kind: CannedKind) -> tuple[str, Pcm16] | None:
        words = self._scenario.reply(kind)
        sound = self._voice.ready(words, self._style()) if self._settings.apologies else None
        return None if sound is None else (words, sound)

    def begun(self) -> None:
        # A second time, for engines that run two requests at once: weighing goes on beside a draft.
        if not self.serial and self._settings.draft:
            self._weigh.post(work.Warm(tuple(self._scenario.opening(self._history()))))

    def ended(self) -> None:
        if not self._closed:
            self._think.post(work.Warm(tuple(self._scenario.opening(tuple(self.conversation.history)))))

    def _warm(self) -> None:
        """Have ready what every reply of this scenario needs."""
        self.conversation.unready.add(self._think.name)
        self.ended()
        texts: tuple[str, ...] = ()
        if self._prepared_words:
            texts += openers.load(self._scenario.language).texts() + self._replies(canned.REPLIES)
        if self._settings.apologies:
            texts += self._replies(canned.APOLOGIES)
        if texts:
            self.conversation.unready.add(self._speak.name)
            self._speak.post(work.Prepare(texts))

    @property
    def _prepared_words(self) -> bool:
        return self._settings.openers and not self.serial

    def _replies(self, kinds: Sequence[CannedKind]) -> tuple[str, ...]:
        return tuple(self._scenario.reply(kind) for kind in kinds)

    # -- the stages' work and where its results go

    def _hear(self, chunk: Chunk) -> Iterator[Turning]:
        if len(self._listen.inbox) >= CAPTURE_QUEUE - 1:
            yield Odd(NoticeCode.CAPTURE_BEHIND)
        yield from self._listening.hear(chunk)

    def _turn(self, turning: Turning) -> bool:
        match turning:
            case Began():
                if not self.conversation.began(turning, self._settings.barge_in):
                    self._listening.reset()
            case More(upto):
                self.conversation.more(upto)
            case Quiet():
                self.conversation.quiet(turning)
            case Again():
                self.conversation.again(turning)
            case Over():
                self.conversation.over(turning)
            case Stir():
                if self._settings.barge_in:
                    self.conversation.stirred(self._settings.hold_ms)
            case Odd(notice):
                self.conversation.notice(notice)
        return True

    def _hearken(self, request: work.Recognise) -> Iterator[work.Recognised]:
        return self._recogniser.work(request)

    def _recognised(self, result: work.Recognised) -> bool:
        return self.conversation.recognised(result, self._settings.draft)

    def _judge_sound(self, request: work.Judge) -> Iterator[work.Judged]:
        model = self.engines.turn_model
        return iter(()) if model is None else work.judge(request, model)

    def _history(self) -> tuple[Message, ...]:
        with self._floor.lock:
            return tuple(self.conversation.history)

    def _weigh_words(self, item: work.Weigh | work.Warm) -> Iterator[work.Weighed]:
        if isinstance(item, work.Warm):
            self.engines.llm.warm(item.prefix)
            return iter(())
        return self._scales.weigh(item, self._scenario.opening(self._history()))

    def _weighed(self, weighed: work.Weighed) -> bool:
        return self.conversation.thought(weighed)

    def _ponder(self, item: work.Think | work.Warm) -> Iterator[work.Thought]:
        if isinstance(item, work.Warm):
            self.engines.llm.warm(item.prefix)
            return iter(())
        if self._gone(item.tag)():
            return iter(())  # dropped while it waited
        history = self._history()
        words = self._prepared_reply(item.text, history)
        thoughts = work.recite(item, words) if words else self._reply(item, self._scenario.messages(history, item.text))
        if item.whole:
            return work.whole_reply(thoughts)
        if item.weigh is None:
            return thoughts
        return chain(self._scales.weigh(work.Weigh(item.weigh, item.text), self._scenario.opening(history)), thoughts)

    def _prepared_reply(self, said: str, history: Sequence[Message]) -> str:
        """The canned reply to `said`; "" where a model has to answer, as it has who just heard these very words."""
        kind = canned.asked_for(said) if self._prepared_words else None
        words = "" if kind is None else self._scenario.reply(kind)
        return "" if history and history[-1].text == words else words

    def _reply(self, item: work.Think, messages: Sequence[Message]) -> Iterator[work.Thought]:
        settings = self._settings
        limits = ReplyLimits(settings.max_tokens, settings.temperature)
        return work.think(
            item,
            self.engines.llm,
            messages,
            limits,
            settings.max_sentences,
            settings.first_phrase_words,
            self._gone(item.tag),
            self.engines.tts.shortest,
        )

    def _thought(self, thought: work.Thought) -> bool:
        if not self.conversation.thought(thought):
            # Weighing may be outdated by a resumed voice while the draft that follows it still stands.
            return isinstance(thought, work.Weighed)
        if isinstance(thought, work.Say | work.Last):
            gone = self._gone(thought.tag)
            while not self._speak.post(thought):
                if gone():
                    return False
                self._think.alive()
                self.clock.sleep(PATIENCE_S)
        return True

    def _utter(self, item: work.Say | work.Last | work.Prepare) -> Iterator[work.Spoken]:
        style = self._style()
        if isinstance(item, work.Last):
            return iter((item,))
        if isinstance(item, work.Prepare):
            return self._voice.prepare(item, style, lambda: self._closed)
        gone = self._gone(item.tag)
        return iter(()) if gone() else self._voice.say(item, style, gone)

    def _style(self) -> Style:
        settings = self._settings
        return Style(settings.speed, settings.voice, settings.manner)

    def _language(self) -> str:
        """What to listen with: the scenario's language, unless the manner of speaking has one of its own."""
        manner = MANNERS.get(self._settings.manner)
        hears = manner.hears if manner is not None and self._scenario.language == "zh" else ""
        return hears or self._scenario.language

    # -- what it costs

    def _waited(self, item: Any, seconds: float) -> None:
        if not isinstance(item, work.Warm | work.Prepare):
            self.conversation.waited(item.tag, seconds)

    def _thought_over(self, item: work.Think | work.Warm, seconds: float) -> None:
        self.conversation.unready.discard(self._think.name)
        if isinstance(item, work.Think):
            self.conversation.spent(item.tag, seconds)

    def _weighing_took(self, item: work.Weigh | work.Warm, seconds: float) -> None:
        if isinstance(item, work.Weigh) and item.ahead:
            self._weighing_s = seconds

    def _uttered(self, item: work.Say | work.Last | work.Prepare, seconds: float) -> None:
        if isinstance(item, work.Prepare):
            self.conversation.unready.discard(self._speak.name)
        else:
            self.conversation.spent(item.tag, seconds)

    def _gone(self, tag: Tag) -> Callable[[], bool]:
        return lambda: self._closed or not self._floor.holds(tag)

    # -- failures

    def _failing(self, code: Code) -> Callable[[Any, Exception], None]:
        def failed(item: Any, error: Exception) -> None:
            if not isinstance(item, work.Warm | work.Prepare):
                self.conversation.fail(item.tag, *code_of(error, code))

        return failed

    def _listen_failed(self, _chunk: Chunk, error: Exception) -> None:
        self.conversation.fail_listening(*code_of(error, Code.VAD_FAILED))
        self._listening = Listening(self.engines.vad, lambda: self._settings)

    def _look(self) -> None:
        """The watchdog's look: a stage without a sign of life for too long loses its turn and its thread."""
        self._meter.tick()
        settings, now = self._settings, self.clock.now()
        asleep, self._looked_at = now - self._looked_at > ASLEEP_S, now
        if asleep:
            for stage in self._stages:
                stage.excuse()
            return
        limits = {
            self._listen: (VAD_TIMEOUT_S, Code.VAD_FAILED),
            self._recognise: (settings.asr_timeout_s, Code.ASR_TIMEOUT),
            self._judge: (JUDGE_TIMEOUT_S, None),
            self._weigh: (settings.llm_timeout_s, None),
            self._think: (settings.llm_timeout_s, Code.LLM_TIMEOUT),
            self._speak: (settings.tts_timeout_s, Code.TTS_TIMEOUT),
        }
        for stage, (limit, code) in limits.items():
            stalled = stage.stalled(now)
            if stalled is None or stalled[1] <= limit:
                continue
            # The turn ends before the new thread runs: what is left in the inbox is stale by then.
            self._stuck(stage, stalled[0], code, f"no sign of life for {stalled[1]:.1f} s")
            stage.restart()
        working = any(s.inbox or s.stalled(now) is not None for s in (self._recognise, self._think, self._speak))
        self.conversation.unstick(working, LOST_S)

    def _stuck(self, stage: Stage[Any, Any], item: Any, code: Code | None, detail: str) -> None:
        if stage is self._recognise:
            self._recogniser = work.Recogniser(self.engines.asr, self._language)
        if stage is self._speak:
            self._voice = work.Voice(self.engines.tts)
        if stage is self._listen:
            self.conversation.fail_listening(Code.VAD_FAILED, detail)
            self._listening = Listening(self.engines.vad, lambda: self._settings)
        elif code is not None and not isinstance(item, work.Warm | work.Prepare):
            self.conversation.fail(item.tag, code, detail)


PREPARED_BY = ("speed", "voice", "manner", "openers", "apologies")  # settings that ask for other prepared phrases
VAD_TIMEOUT_S = 2.0
LOST_S = 3.0  # a reply that nobody makes and that is not there: whatever went wrong, the caller is told
ASLEEP_S = 1.5  # a watchdog that did not run for so long was not alone in that: a stopped process, a closed lid
REPLY_NICE = 5  # a draft's later words are made while the transcript is waited for
JUDGE_NICE = REPLY_NICE  # waited for too, though less than the transcript: behind a draft's voice it came 140 ms late
JUDGE_TIMEOUT_S = 2.0


def ignore(_item: object, _error: Exception) -> None:
    """The turn model's failure fails no turn: the endpoint goes by silence alone then."""


def code_of(error: Exception, otherwise: Code) -> tuple[Code, str]:
    """The code an engine gave its error; `otherwise` for one it did not foresee."""
    if isinstance(error, TurnaroundError):
        return error.code, error.what
    return otherwise, f"{type(error).__name__}: {error}"


def running_sessions() -> int:
    """Sessions with a living listen thread."""
    return sum(t.name == "turnaround-listen" for t in threading.enumerate())
