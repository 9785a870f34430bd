"""The state of one visitor's conversation: turns, floor, playout, history, events. No threads and no engines in here.

Whatever happens is reported to a method, under the floor's lock; what has to be done about it is asked of `Asks`.
So every state can be reached in a test without a thread, and a turn cannot end twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from pipeline import canned, work
from pipeline.chronicle import Chronicle
from pipeline.clock import Clock
from pipeline.digits import Expected
from pipeline.errors import Code
from pipeline.events import (
    Delta,
    DraftDropped,
    DraftStarted,
    Endpointed,
    Event,
    NoticeCode,
    Partial,
    Released,
    Snapshot,
    SpeechStarted,
    State,
    TurnEnded,
    TurnView,
    Utterance,
)
from pipeline.exchange import OPENER, OUTCOMES, Exchange, Happening
from pipeline.finish import finished
from pipeline.ledger import Ledger
from pipeline.listen import Again, Began, Over, Quiet
from pipeline.playout import Pcm16, Piece, Playout, seconds
from pipeline.ports import PLAYOUT_RATE, Message, Role
from pipeline.ring import Capture
from pipeline.scenario import CannedKind
from pipeline.timeline import Mark, Timeline
from pipeline.turn import Floor, Tag

KEPT_TURNS = 500
KEPT_MESSAGES = 20
NO_WORDS_YET = 0.0  # P(finished) of a sound without words: perhaps they come
HOLDS = 2  # a reply
VAD_FAILURE_REST_S = 10.0  # a broken VAD fails one turn in this time, not one a chunk


class Asks(Protocol):
    """What a conversation asks of its session. Posts to a stage; never blocks."""

    def recognise(self, request: work.Recognise) -> None: ...

    def judge(self, request: work.Judge) -> None: ...

    def expect(self, p_finished: float) -> None:
        """Tell the endpointer what the turn model says."""
        ...

    def weigh(self, request: work.Weigh) -> None: ...

    def reply(self, request: work.Think) -> None: ...

    def note(self, said: str) -> str:
        """What the reply to `said` would rest on; "" when nothing fits, or drafts may not begin early."""
        ...

    def keeps_pace(self) -> bool:
        """Whether the language model follows running speech; where it does not, an early draft would only slow it."""
        ...

    def stands(self, answered: str, said: str) -> bool:
        """Whether the reply begun on `answered` is also the reply to `said`."""
        ...

    def begun(self) -> None:
        """A caller speaks: get ready to weigh the words."""
        ...

    def ended(self) -> None:
        """A turn is over and the history has changed: get ready for the next one."""
        ...

    def expected(self) -> Sequence[Expected]:
        """Numbers of known length that the caller may give."""
        ...

    def opener(self, said: str, last: str) -> tuple[str, Pcm16] | None:
        """Words to begin the reply with, and their sound; None for nothing."""
        ...

    def canned(self, kind: CannedKind) -> tuple[str, Pcm16] | None:
        """A canned reply and its sound; None where it is not prepared or not wanted."""
        ...


class Conversation:
    """See the module. Methods take `floor.lock` themselves; the playout and the turns change together."""

    def __init__(self, clock: Clock, asks: Asks, serial: bool) -> None:
        self._clock, self._asks, self._serial = clock, asks, serial
        self.floor = Floor()
        self._playout = Playout()
        self._current: Exchange | None = None
        self._ended: deque[TurnView] = deque(maxlen=KEPT_TURNS)
        self.history: deque[Message] = deque(maxlen=KEPT_MESSAGES)
        self._chronicle = Chronicle(clock)
        self._tell = self._chronicle.tell
        self._false_starts = 0
        self._ledger = Ledger()
        self.unready: set[str] = set()  # what the session is still preparing
        self._media: tuple[Tag, int] = (Tag(0), 0)  # media time reached by the reply under way
        self._vad_failed_at = float("-inf")
        self._last_opener = ""
        self._apologised: CannedKind | None = None  # what the caller was last told, until a reply comes through
        self._carry = ""
        self._moved_at = clock.now()  # when a turn last came forward
        self.downlink_s: float | None = None  # what lies between leaving here and being heard

    # -- what the caller does

    def began(self, began: Began, barge_in: bool) -> bool:
        """Speech started: the floor is the caller's. False when a reply is under way and may not be interrupted."""
        with self.floor.lock:
            current = self._current
            if current is not None and current.committed and not barge_in:
                return False
            tag = self.floor.take(self._silence)
            exchange = Exchange(tag, began.capture, Timeline(), carried=self._carry)
            self._carry = ""
            exchange.stamp(Mark.SPEECH_START, began.at)
            self._current = exchange
            self._tell(SpeechStarted(tag, began.at))
            self._asks.begun()
            return True

    def stirred(self, hold_ms: int) -> None:
        """Perhaps the caller's voice over the reply: it holds its breath until `began` or until the time is over.

        A room that is never still may not keep a reply from being said: only so many times a reply.
        """
        with self.floor.lock:
            exchange = self._current
            if hold_ms and exchange is not None and exchange.committed and exchange.holds < HOLDS:
                exchange.holds += 1
                self._playout.hold(hold_ms * PLAYOUT_RATE // 1000)

    def more(self, upto: int) -> None:
        """Time to refresh the live transcript."""
        with self.floor.lock:
            exchange = self._listened_to()
            if exchange is not None and not self._serial:
                self._asks.recognise(work.Recognise(exchange.tag, exchange.capture, upto, stable=False))

    def quiet(self, quiet: Quiet) -> None:
        """The caller paused: from here on a draft may run."""
        with self.floor.lock:
            exchange = self._listened_to()
            if exchange is None or not exchange.step(Happening.PAUSE):
                return
            exchange.timeline = exchange.timeline.restamped(Mark.SPEECH_END, quiet.end_at)
            exchange.cold, exchange.queued_s = bool(self.unready), 0.0
            self._asks.judge(work.Judge(exchange.tag, exchange.capture, quiet.upto))
            if not self._serial:
                self._ask_transcript(exchange, quiet.upto, final=False)

    def again(self, again: Again) -> None:
        """The caller went on: a draft is dropped, unless it rests on a note that may still fit."""
        with self.floor.lock:
            exchange = self._listened_to()
            if exchange is None or not exchange.step(Happening.RESUME):
                return
            exchange.revise(self.floor.revise())
            if exchange.replying and not self._asks.note(exchange.answers):
                self._drop(exchange, again.at)

    def over(self, over: Over) -> None:
        """The endpoint: the turn is committed."""
        with self.floor.lock:
            exchange = self._listened_to()
            if exchange is None or not exchange.step(Happening.COMMIT):
                return
            now = self._clock.now()
            exchange.timeline = exchange.timeline.restamped(Mark.SPEECH_END, over.end_at)
            exchange.stamp(Mark.ENDPOINT, now)
            self._tell(Endpointed(exchange.tag, over.end_at, over.waited_ms, exchange.p_finished, now))
            if over.capped:
                self.notice(NoticeCode.MONOLOGUE_CAPPED)
            if exchange.error is not None:
                self.fail(exchange.tag, *exchange.error)
            elif exchange.reply_error is not None and not exchange.early:
                self.fail(exchange.reply_tag, *exchange.reply_error)
            elif exchange.recognised and exchange.heard:
                self._commit(exchange)
            elif exchange.recognised or not exchange.asked:
                # A short word may only be recognised with the silence after it: the last try has all of it.
                self._ask_transcript(exchange, over.upto, final=True)

    def _ask_transcript(self, exchange: Exchange, upto: int, final: bool) -> None:
        exchange.asked = True
        exchange.error = None
        self._asks.recognise(work.Recognise(exchange.tag, exchange.capture, upto, stable=True, final=final))

    def _listened_to(self) -> Exchange | None:
        """The turn the ear is in; None when it was ended from elsewhere (an error, a closed session)."""
        exchange = self._current
        return None if exchange is None or exchange.ended or exchange.committed else exchange

    # -- what the engines answer; False when it came too late

    def recognised(self, result: work.Recognised, draft: bool) -> bool:
        return self.floor.deliver(result.request.tag, result, lambda r: self._take_transcript(r, draft))

    def _take_transcript(self, result: work.Recognised, draft: bool) -> None:
        exchange, now = self._current, self._clock.now()
        if exchange is None or exchange.ended:
            return
        exchange.heard, exchange.emotion = result.text, result.emotion
        self._tell(Partial(exchange.tag, result.text, now))
        if not result.request.stable:
            if draft and result.text:
                self._asks.weigh(work.Weigh(exchange.tag, exchange.said, ahead=True))
                self._draft_early(exchange)
            return
        exchange.recognised = True
        exchange.stamp(Mark.TRANSCRIPT, now)
        if exchange.committed and not result.text and not result.request.final:
            self._ask_transcript(exchange, exchange.capture.length, final=True)
        elif exchange.committed:
            self._commit(exchange)
        elif not self._serial:
            self._expect(exchange)
            if not result.text:
                return
            if not draft or self._still_right(exchange):
                self._asks.weigh(work.Weigh(exchange.tag, exchange.said))
            else:
                self._start_reply(exchange)

    def judged(self, judged: work.Judged) -> bool:
        return self.floor.deliver(judged.tag, judged, self._take_judgement)

    def _take_judgement(self, judged: work.Judged) -> None:
        if self._current is not None:
            self._current.p_sound = judged.sound
            self._current.stamp(Mark.JUDGED, self._clock.now())
            self._expect(self._current)

    def _expect(self, exchange: Exchange) -> None:
        """The witnesses so far, to the endpointer."""
        if exchange.state is not State.PAUSED:
            return
        said = exchange.heard if exchange.recognised else ""
        more_to_come = not (exchange.weighed or self._serial)
        p = finished(exchange.p_sound, exchange.p_text, said, more_to_come, self._asks.expected())
        if p is not None:
            if exchange.recognised and not said:
                p = min(p, NO_WORDS_YET)
            exchange.p_finished = p
            self._asks.expect(p)

    def _commit(self, exchange: Exchange) -> None:
        """Endpoint and transcript are there: open the gate, and begin the reply if no draft did."""
        if not exchange.said:
            self.fail(exchange.tag, Code.NOTHING_HEARD, "sound, but no words in it")
            return
        self._tell(Utterance(exchange.tag, exchange.heard, self._clock.now(), exchange.emotion))
        if self._still_right(exchange):
            self._ledger.hits += exchange.drafted
        else:
            self._start_reply(exchange)
        self._playout.open(exchange.reply_tag)
        if not exchange.phrase_samples:
            self._open_with_words(exchange)

    def _open_with_words(self, exchange: Exchange) -> None:
        """Nothing of the reply is ready: prepared words come before it."""
        opener = self._asks.opener(exchange.said, self._last_opener)
        if opener is None:
            return
        words, samples = opener
        now = self._clock.now()
        exchange.stamp(Mark.FIRST_PHRASE, now)
        exchange.stamp(Mark.FIRST_AUDIO, now)
        exchange.open_with(words, len(samples))
        self._playout.push(Piece(exchange.reply_tag, -len(samples), OPENER, samples))
        self._tell(Delta(exchange.tag, words, now))

    def _draft_early(self, exchange: Exchange) -> None:
        """The caller still speaks: a reply can begin as soon as there is a note that it would rest on."""
        if not self._still_right(exchange) and self._asks.keeps_pace() and self._asks.note(exchange.said):
            self._start_reply(exchange)
            exchange.early = True

    def _still_right(self, exchange: Exchange) -> bool:
        """Whether there is a reply under way, and it answers what was said by now; else it is dropped."""
        if not exchange.replying:
            return False
        broken = exchange.early and exchange.reply_error is not None
        if not broken and self._asks.stands(exchange.answers, exchange.said):
            return True
        self._drop(exchange, self._clock.now())
        return False

    def _start_reply(self, exchange: Exchange) -> None:
        exchange.reply_tag = self.floor.redraft(lambda: void(self._playout.clear()))
        exchange.answers = exchange.said
        exchange.drafted = not exchange.committed
        if exchange.drafted:
            exchange.drafts += 1
            self._ledger.drafts += 1
            self._tell(DraftStarted(exchange.tag, exchange.heard, self._clock.now()))
        weigh = exchange.tag if exchange.state is State.PAUSED else None
        self._asks.reply(work.Think(exchange.reply_tag, exchange.said, weigh, whole=self._serial))

    def _drop(self, exchange: Exchange, at: float) -> None:
        """The draft is of no use: nothing of it can act from here on."""
        self.floor.redraft(lambda: void(self._playout.clear()))
        self._ledger.dropped(exchange.reply_tag, exchange.tokens, exchange.busy_s)
        exchange.drop_reply()
        self._tell(DraftDropped(exchange.tag, at))

    def thought(self, thought: work.Thought) -> bool:
        return self.floor.deliver(thought.tag, thought, self._take_thought)

    def _take_thought(self, thought: work.Thought) -> None:
        exchange, now = self._current, self._clock.now()
        if exchange is None:
            return
        match thought:
            case work.Text(_, text):
                exchange.stamp(Mark.FIRST_TOKEN, now)
                exchange.tokens += 1
                exchange.reply += text
                self._tell(Delta(exchange.tag, text, now))
            case work.Say(_, index, text):
                exchange.stamp(Mark.FIRST_PHRASE, now)
                exchange.phrases[index] = text
            case work.Cut():
                self.notice(NoticeCode.REPLY_CUT)
            case work.Weighed(_, p):
                exchange.p_text, exchange.weighed = p, True
                exchange.stamp(Mark.WEIGHED, now)
                self._expect(exchange)
            case work.Last():
                pass

    def spoken(self, spoken: work.Spoken) -> bool:
        return self.floor.deliver(spoken.tag, spoken, self._take_sound)

    def _take_sound(self, spoken: work.Spoken) -> None:
        exchange = self._current
        if exchange is None:
            return
        if isinstance(spoken, work.Last):
            if not exchange.phrase_samples.keys() - {OPENER}:
                self.fail(exchange.reply_tag, Code.TTS_EMPTY, "the voice made no sound of the reply")
            self._playout.finish(spoken.tag)
            return
        exchange.stamp(Mark.FIRST_AUDIO, self._clock.now())
        if not exchange.phrase_samples:
            exchange.cached = spoken.cached
        at = self._media[1] if self._media[0] == spoken.tag else 0
        self._playout.push(Piece(spoken.tag, at, spoken.phrase, spoken.samples))
        made = exchange.phrase_samples
        made[spoken.phrase] = made.get(spoken.phrase, 0) + len(spoken.samples)
        self._media = (spoken.tag, at + len(spoken.samples))

    # -- what it costs

    def waited(self, tag: Tag, seconds: float) -> None:
        """Work for `tag` lay in an inbox for so long."""
        with self.floor.lock:
            exchange = self._current
            ours = exchange is not None and self.floor.holds(tag)
            if exchange is not None and ours and Mark.FIRST_AUDIO not in exchange.timeline.marks:
                exchange.queued_s = max(exchange.queued_s, seconds)

    def spent(self, tag: Tag, seconds: float) -> None:
        """The language model or the voice was busy with `tag` for so long."""
        with self.floor.lock:
            exchange = self._current
            if exchange is not None and self.floor.holds(tag):
                exchange.busy_s += seconds
            elif self._ledger.late(tag, seconds) and exchange is not None and exchange.tag.turn == tag.turn:
                exchange.wasted_s += seconds

    def late_slot(self) -> None:
        """An outbound slot came late."""
        with self.floor.lock:
            exchange = self._current
            if exchange is not None and exchange.state in (State.PAUSED, State.COMMITTED):
                exchange.late_slots += 1

    # -- what leaves

    def pull(self, n: int) -> Pcm16:
        with self.floor.lock:
            pulled = self._playout.pull(n)
            exchange = self._current
            if exchange is not None:
                if pulled.sounded is not None:
                    self._released(exchange, self._clock.now() + seconds(pulled.sounded))
                exchange.underruns += pulled.underrun
                if pulled.drained == exchange.reply_tag:
                    self._drained(exchange)
            return pulled.samples

    def _released(self, exchange: Exchange, at: float) -> None:
        if exchange.step(Happening.RELEASE):
            exchange.stamp(Mark.RELEASED, at)
            self._last_opener = exchange.opener
            if self.downlink_s is not None:
                exchange.stamp(Mark.HEARD, at + self.downlink_s)
            self._tell(Released(exchange.tag, at))

    # -- how turns end

    def _drained(self, exchange: Exchange) -> None:
        if exchange.step(Happening.DRAIN):
            exchange.spoken = exchange.reply
            self._apologised = None
            self._end(exchange)
        else:
            self.fail(exchange.reply_tag, Code.TTS_EMPTY, "the voice made only silence of the reply")

    def _silence(self) -> None:
        """As the floor moves on: what plays stops, and its turn ends."""
        played = self._playout.clear()
        exchange = self._current
        if exchange is not None and exchange.step(Happening.TAKEN):
            exchange.spoken = exchange.heard_by_caller(played)
            if not exchange.remembered:
                # Cut in upon: nothing was answered, so what follows continues what was said.
                self._carry = exchange.said
            self._end(exchange)

    def leave(self) -> None:
        """The visitor went: a turn under way ends as interrupted, and nothing tagged before now can act."""
        with self.floor.lock:
            self.floor.take(self._silence)
            self._carry = ""

    def unstick(self, working: bool, patience_s: float) -> None:
        """Asked again and again: a committed turn with nobody at work and nothing to play for so long has failed."""
        with self.floor.lock:
            exchange, now = self._current, self._clock.now()
            if working or exchange is None or not exchange.committed or self._playout.waiting:
                self._moved_at = now
            elif now - self._moved_at > patience_s:
                tag = exchange.reply_tag if exchange.replying else exchange.tag
                self.fail(tag, Code.INTERNAL, "the reply got lost on its way")

    def fail(self, tag: Tag, code: Code, detail: str) -> None:
        """End the turn `tag` is in as failed. Of a draft the failure waits: it counts if the turn commits to it."""
        with self.floor.lock:
            exchange = self._current
            if exchange is None or exchange.ended or not self.floor.holds(tag):
                return
            if not exchange.committed and code is not Code.VAD_FAILED:
                if tag.draft:
                    exchange.reply_error = (code, detail)
                else:
                    exchange.error = (code, detail)
                return
            exchange.step(Happening.FAIL)
            exchange.code, exchange.detail = code, detail
            self._false_starts += code is Code.NOTHING_HEARD
            # Moving on refuses whatever the stages still have in hand for this turn.
            played: dict[int, int] = {}
            self.floor.revise()
            self.floor.redraft(lambda: played.update(self._playout.clear()))
            exchange.spoken = exchange.heard_by_caller(played)
            exchange.apology = self._apologise(exchange, code)
            self._end(exchange)

    def _apologise(self, exchange: Exchange, code: Code) -> str:
        """A failed turn is heard as well as read; the same words never come twice running. What is said, or ""."""
        kind = canned.kind_for(code, exchange.sounded_s)
        ready = None if kind is None or kind == self._apologised else self._asks.canned(kind)
        if ready is None:
            return ""
        self._apologised = kind
        words, samples = ready
        tag = self.floor.redraft(lambda: void(self._playout.clear()))
        self._playout.push(Piece(tag, 0, OPENER, samples))
        self._playout.finish(tag)
        self._playout.open(tag)
        return words

    def fail_listening(self, code: Code, detail: str) -> None:
        """The ear broke: the turn under way fails; where there is none, one is opened to say so."""
        with self.floor.lock:
            now = self._clock.now()
            idle = self._current is None or self._current.ended
            if idle and now - self._vad_failed_at < VAD_FAILURE_REST_S:
                return
            if idle:
                self.began(Began(now, Capture(0.0)), barge_in=True)
            self._vad_failed_at = now
            assert self._current is not None
            if not self._current.committed:  # a reply that is already on its way needs no ear
                self.fail(
                    self._current.tag, Code.VAD_FAILED, detail if code is Code.VAD_FAILED else f"{code}: {detail}"
                )

    def _end(self, exchange: Exchange) -> None:
        self._ended.append(exchange.view())
        # A turn without an answer is no example to the model.
        if exchange.said and exchange.remembered:
            self.history.append(Message(Role.USER, exchange.said))
            self.history.append(Message(Role.ASSISTANT, exchange.remembered))
        self._asks.ended()
        outcome = OUTCOMES[exchange.state]
        self._tell(TurnEnded(exchange.tag, outcome, exchange.code, exchange.detail, self._clock.now()))

    # -- views

    def notice(self, code: NoticeCode) -> None:
        with self.floor.lock:
            self._chronicle.notice(code)

    def events(self, since: int) -> tuple[list[Event], int]:
        with self.floor.lock:
            return self._chronicle.since(since)

    def fill(self, snapshot: Snapshot) -> Snapshot:
        """`snapshot` with everything that is known here."""
        with self.floor.lock:
            live = () if self._current is None or self._current.ended else (self._current.view(),)
            return replace(
                snapshot,
                version=self._chronicle.count,
                turns=(*self._ended, *live),
                underruns=self._playout.underruns,
                false_starts=self._false_starts,
                drafts=self._ledger.drafts,
                drafts_dropped=self._ledger.drafts_dropped,
                draft_hits=self._ledger.hits,
                wasted_tokens=self._ledger.wasted_tokens,
                wasted_cpu_s=round(self._ledger.wasted_s, 3),
                notices=self._chronicle.notices,
            )


def void(_value: object) -> None:
    """Drop a result where a callable without one is wanted."""
