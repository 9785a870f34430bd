"""The record of one turn and the table of what may follow what."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from pipeline.errors import Code
from pipeline.events import ENDED, Outcome, State, TurnView
from pipeline.ring import Capture
from pipeline.timeline import Mark, Timeline
from pipeline.turn import Tag


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

# What a dropped draft leaves behind is not the turn's.
DRAFT_MARKS = (Mark.TRANSCRIPT, Mark.FIRST_TOKEN, Mark.FIRST_PHRASE, Mark.FIRST_AUDIO, Mark.JUDGED, Mark.WEIGHED)


@dataclass(slots=True)
class Exchange:
    """Everything known of one turn. Changed only under the floor's lock; shown through `view`."""

    tag: Tag
    capture: Capture
    timeline: Timeline
    carried: str = ""  # said in a turn before this one whose reply was cut off unheard: the same utterance still
    state: State = State.HEARING
    heard: str = ""
    recognised: bool = False  # `heard` is the transcript of this revision's whole audio
    asked: bool = False  # recognition of this revision was requested
    replying: bool = False  # the reply to this revision was begun
    drafted: bool = False  # ... before the endpoint
    cached: bool = False
    opener: str = ""  # words the reply begins with that no model made
    reply: str = ""
    spoken: str = ""
    phrases: dict[int, str] = field(default_factory=dict)
    phrase_samples: dict[int, int] = field(default_factory=dict)  # samples at 48 kHz made of each phrase
    p_sound: float | None = None  # the turn model's word on this revision
    p_text: float | None = None  # the language model's
    weighed: bool = False  # ... has been given, if only as "cannot tell"
    p_finished: float | None = None  # both together
    error: tuple[Code, str] | None = None  # of a draft: it counts when the turn is committed
    code: Code | None = None
    detail: str = ""
    underruns: int = 0
    cold: bool = False  # the session was not ready when the caller paused
    queued_s: float = 0.0  # the longest wait of this revision's work in an inbox, until its first audio
    late_slots: int = 0  # outbound, from this pause to the reply's first sample
    tokens: int = 0  # pieces the language model made of this revision's reply
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

    def revise(self, tag: Tag) -> bool:
        """The caller said more: forget the draft. Returns whether there was one."""
        had_draft = self.replying
        if had_draft:
            self.drafts_dropped += 1
            self.wasted_tokens += self.tokens
            self.wasted_s += self.busy_s
        self.tokens = self.late_slots = 0
        self.busy_s = self.queued_s = 0.0
        self.tag = tag
        self.recognised = self.asked = self.replying = self.drafted = self.cached = False
        self.reply = self.opener = ""
        self.phrases.clear()
        self.phrase_samples.clear()
        self.error = None
        self.p_sound = self.p_text = self.p_finished = None
        self.weighed = False
        self.timeline = self.timeline.without(*DRAFT_MARKS)
        return had_draft

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
            timeline=self.timeline,
            spans=self.timeline.spans(),
            drafted=self.drafted,
            cached=self.cached,
            p_finished=self.p_finished,
            code=self.code,
            detail=self.detail,
            underruns=self.underruns,
            cold=self.cold,
            queued_ms=round(self.queued_s * 1e3, 1),
            late_slots=self.late_slots,
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
