"""The record of one turn and the table of what may follow what."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from pipeline.errors import Code
from pipeline.events import ENDED, Outcome, State, TurnView
from pipeline.ring import Capture
from pipeline.timeline import Mark, Timeline
from pipeline.turn import Tag

OPENER = 0  # the phrase that comes before the model's own; theirs count from 1


class Happening(Enum):
    PAUSE = auto()  # the caller fell silent
    RESUME = auto()  # ... and went on
    COMMIT = auto()  # the endpoint was decided
    RELEASE = auto()  # the reply's first sample left
    DRAIN = auto()  # its last one did
    TAKEN = auto()  # somebody else has the floor
    FAIL = auto()


LIVE = tuple(s for s in State if s not in ENDED)

NEXT: dict[tuple[State, Happening], State] = {
    (State.HEARING, Happening.PAUSE): State.PAUSED,
    (State.HEARING, Happening.COMMIT): State.COMMITTED,  # a monologue at its cap
    (State.PAUSED, Happening.RESUME): State.HEARING,
    (State.PAUSED, Happening.COMMIT): State.COMMITTED,
    (State.COMMITTED, Happening.RELEASE): State.SPEAKING,
    (State.SPEAKING, Happening.DRAIN): State.ANSWERED,
    **{(live, Happening.TAKEN): State.INTERRUPTED for live in LIVE},
    **{(live, Happening.FAIL): State.FAILED for live in LIVE},
}

OUTCOMES = {
    State.ANSWERED: Outcome.ANSWERED,
    State.INTERRUPTED: Outcome.INTERRUPTED,
    State.FAILED: Outcome.FAILED,
}

# What an outdated revision or a dropped draft leaves behind is not the turn's.
LISTEN_MARKS = (Mark.TRANSCRIPT, Mark.JUDGED, Mark.WEIGHED)
REPLY_MARKS = (Mark.FIRST_TOKEN, Mark.FIRST_PHRASE, Mark.FIRST_AUDIO)
NO_REPLY = Tag(0)


@dataclass(slots=True)
class Exchange:
    """Everything known of one turn. Changed only under the floor's lock; shown through `view`."""

    tag: Tag
    capture: Capture
    timeline: Timeline
    carried: str = ""  # said in a turn before this one whose reply was cut off unheard: the same utterance still
    state: State = State.HEARING
    heard: str = ""
    emotion: str = ""  # how that sounded; "" where the engine cannot tell
    recognised: bool = False  # `heard` is the transcript of this revision's whole audio
    asked: bool = False  # recognition of this revision was requested
    reply_tag: Tag = NO_REPLY  # of the reply under way
    answers: str = ""  # what was said when it was begun
    drafted: bool = False  # ... before the endpoint
    early: bool = False  # ... while the caller still spoke
    cached: bool = False
    opener: str = ""  # words the reply begins with that no model made
    reply: str = ""
    spoken: str = ""
    apology: str = ""  # what the caller was told instead of a reply
    phrases: dict[int, str] = field(default_factory=dict)
    phrase_samples: dict[int, int] = field(default_factory=dict)  # samples at 48 kHz made of each phrase
    p_sound: float | None = None  # the turn model's word on this revision
    p_text: float | None = None  # the language model's
    weighed: bool = False  # ... has been given, if only as "cannot tell"
    p_finished: float | None = None  # both together
    error: tuple[Code, str] | None = None  # before the endpoint: it counts when the turn is committed
    reply_error: tuple[Code, str] | None = None  # likewise, of the reply under way
    code: Code | None = None
    detail: str = ""
    underruns: int = 0
    cold: bool = False  # the session was not ready when the caller paused
    queued_s: float = 0.0  # the longest wait of this revision's work in an inbox, until its first audio
    late_slots: int = 0  # outbound, from this pause to the reply's first sample
    holds: int = 0  # times the reply held its breath for what may have been a voice
    tokens: int = 0  # pieces the language model made of the reply under way
    busy_s: float = 0.0  # seconds the language model and the voice spent on it
    drafts: int = 0
    drafts_dropped: int = 0
    wasted_tokens: int = 0
    wasted_s: float = 0.0

    def step(self, happening: Happening) -> bool:
        """Move on as the table says; False (and no change) where it says nothing."""
        following = NEXT.get((self.state, happening))
        if following is None:
            return False
        self.state = following
        return True

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def committed(self) -> bool:
        return self.state in (State.COMMITTED, State.SPEAKING)

    def stamp(self, mark: Mark, at: float) -> None:
        self.timeline = self.timeline.stamped(mark, at)

    @property
    def sounded_s(self) -> float:
        """From the first to the last sound of the caller, as far as it is known; 0 before."""
        marks = self.timeline.marks
        return max(marks.get(Mark.SPEECH_END, 0.0) - marks.get(Mark.SPEECH_START, 0.0), 0.0)

    @property
    def replying(self) -> bool:
        """Whether a reply was begun and not dropped."""
        return self.reply_tag != NO_REPLY

    def revise(self, tag: Tag) -> None:
        """The caller said more: what is known of the pause is void. The reply under way stays."""
        self.tag = tag
        self.recognised = self.asked = self.weighed = False
        self.error = None
        self.p_sound = self.p_text = self.p_finished = None
        self.late_slots, self.queued_s = 0, 0.0
        self.timeline = self.timeline.without(*LISTEN_MARKS)

    def drop_reply(self) -> None:
        """Forget the draft, and count what it cost."""
        self.drafts_dropped += 1
        self.wasted_tokens += self.tokens
        self.wasted_s += self.busy_s
        self.tokens, self.busy_s = 0, 0.0
        self.reply_tag, self.reply_error = NO_REPLY, None
        self.drafted = self.early = self.cached = False
        self.reply = self.opener = self.answers = ""
        self.phrases.clear()
        self.phrase_samples.clear()
        self.timeline = self.timeline.without(*REPLY_MARKS)

    def open_with(self, words: str, samples: int) -> None:
        """The reply begins with words that no model made; `samples` of them, at the playout's rate."""
        self.opener = words
        self.reply = f"{words}{' ' if words.isascii() else ''}{self.reply}"
        self.phrases[OPENER], self.phrase_samples[OPENER] = words, samples
        self.cached = True

    @property
    def said(self) -> str:
        """What the reply has to answer."""
        gap = " " if self.carried.isascii() else ""
        return f"{self.carried}{gap}{self.heard}".strip()

    @property
    def remembered(self) -> str:
        """What the caller heard of the reply, in the model's own words; "" for nothing."""
        return self.spoken.removeprefix(self.opener).strip()

    def heard_by_caller(self, played: dict[int, int]) -> str:
        """The reply's text up to what was played: whole phrases, and the played share of the last one's words."""
        parts = []
        for index in sorted(self.phrases):
            text, made = self.phrases[index], self.phrase_samples.get(index, 0)
            share = min(played.get(index, 0) / made, 1.0) if made else 0.0
            if share > 0:
                parts.append(_share_of(text, share))
            if share < 1:
                break
        return " ".join(p for p in parts if p)

    def view(self) -> TurnView:
        return TurnView(
            number=self.tag.turn,
            state=self.state,
            heard=self.heard,
            final=self.committed or self.ended,
            reply=self.reply if self.committed or self.ended else "",
            spoken=self.spoken,
            apology=self.apology,
            timeline=self.timeline,
            spans=self.timeline.spans(),
            drafted=self.drafted,
            cached=self.cached,
            p_finished=self.p_finished,
            code=self.code,
            detail=self.detail,
            underruns=self.underruns,
            emotion=self.emotion,
            cold=self.cold,
            queued_ms=round(self.queued_s * 1e3, 1),
            late_slots=self.late_slots,
            holds=self.holds,
            drafts=self.drafts,
            drafts_dropped=self.drafts_dropped,
            wasted_tokens=self.wasted_tokens,
            wasted_s=round(self.wasted_s, 3),
        )


def _share_of(text: str, share: float) -> str:
    """The first `share` of a phrase: by words, or by characters where there are no spaces."""
    if share >= 1:
        return text
    words = text.split()
    if len(words) > 1:
        return " ".join(words[: int(len(words) * share)])
    return text[: int(len(text) * share)]
