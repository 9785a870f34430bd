"""What a session tells the outside: a closed union of frozen events, and the frozen Snapshot a page draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from pipeline.errors import Code
from pipeline.timeline import Spans, Timeline
from pipeline.turn import Tag


class Outcome(StrEnum):
    """How a started turn ended. Each ends in exactly one of these."""

    ANSWERED = "answered"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class State(StrEnum):
    """Where a turn is. The transitions are the table NEXT in pipeline/exchange.py."""

    HEARING = "hearing"  # the caller speaks
    PAUSED = "paused"  # the caller is silent; a draft may be under way
    COMMITTED = "committed"  # the endpoint was decided; the reply is on its way
    SPEAKING = "speaking"  # its first sample was released
    ANSWERED = "answered"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


ENDED = frozenset({State.ANSWERED, State.INTERRUPTED, State.FAILED})


class NoticeCode(StrEnum):
    """Something the visitor should know that ends no turn."""

    MONOLOGUE_CAPPED = "notice.monologue-capped"
    AUDIO_REPAIRED = "notice.audio-repaired"  # NaN or infinite samples were replaced by silence
    AUDIO_CLIPPED = "notice.audio-clipped"
    CAPTURE_BEHIND = "notice.capture-behind"  # the capture queue was full; the oldest audio was dropped
    REPLY_CUT = "notice.reply-cut"  # the reply reached its sentence or token limit
    SILENCE = "notice.silence"  # nothing heard for a long while: is the microphone muted?


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    tag: Tag
    at: float


@dataclass(frozen=True, slots=True)
class Partial:
    tag: Tag
    text: str
    at: float


@dataclass(frozen=True, slots=True)
class DraftStarted:
    tag: Tag
    text: str
    at: float


@dataclass(frozen=True, slots=True)
class DraftDropped:
    tag: Tag
    at: float


@dataclass(frozen=True, slots=True)
class Endpointed:
    tag: Tag
    speech_end: float
    waited_ms: float
    p_finished: float | None  # None: the turn model had not answered
    at: float


@dataclass(frozen=True, slots=True)
class Utterance:
    """The final transcript."""

    tag: Tag
    text: str
    at: float
    emotion: str = ""  # how the caller sounded: "happy", "sad", ...; "" where the engine cannot tell


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the reply's text, as the page should show it."""

    tag: Tag
    text: str
    at: float


@dataclass(frozen=True, slots=True)
class Released:
    """The first sounding sample of the reply left for the visitor."""

    tag: Tag
    at: float


@dataclass(frozen=True, slots=True)
class TurnEnded:
    tag: Tag
    outcome: Outcome
    code: Code | None  # set exactly when the outcome is FAILED
    detail: str
    at: float


@dataclass(frozen=True, slots=True)
class Notice:
    code: NoticeCode
    at: float


Event: TypeAlias = (
    SpeechStarted
    | Partial
    | DraftStarted
    | DraftDropped
    | Endpointed
    | Utterance
    | Delta
    | Released
    | TurnEnded
    | Notice
)


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn, as a page or a report shows it."""

    number: int
    state: State
    heard: str  # the transcript so far
    final: bool  # whether `heard` will still change
    reply: str  # the reply's text so far
    spoken: str  # the part of it the visitor has heard, for an interrupted reply
    timeline: Timeline
    spans: Spans | None  # None until the reply was released
    drafted: bool  # the reply was begun before the endpoint
    cached: bool  # its first audio came out of a cache
    p_finished: float | None
    code: Code | None
    detail: str
    underruns: int = 0
    emotion: str = ""  # how the caller sounded; "" where the engine cannot tell
    apology: str = ""  # prepared words that the visitor heard instead of a reply
    # What it cost and what stood in its way: pipeline/blame.py reads these.
    cold: bool = False  # the session was still getting ready when the caller fell silent
    queued_ms: float = 0.0  # the longest wait of its work in an inbox, until its first audio
    late_slots: int = 0  # outbound slots later than 8 ms between the end of speech and the reply's first sample
    holds: int = 0  # times the reply held its breath for what may have been a voice
    drafts: int = 0  # replies begun before the endpoint
    drafts_dropped: int = 0
    wasted_tokens: int = 0  # the language model's pieces of the dropped ones
    wasted_s: float = 0.0  # seconds the language model and the voice were busy with them

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def false_start(self) -> bool:
        """A turn begun by something that was not words."""
        return self.code is Code.NOTHING_HEARD


@dataclass(frozen=True, slots=True)
class Load:
    """How hard the machine works, and what it cost."""

    cpu_share: float = 0.0  # of one core, 0..cores, over the last seconds
    rss_mb: float = 0.0
    late_slots: int = 0  # outbound slots later than 8 ms
    slots: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A frozen view of a session. `version` moves whenever anything but the level changed."""

    version: int
    at: float
    level_dbfs: float  # of the last capture, -100..0
    speaking: bool  # the caller is speaking
    connected: bool  # capture arrived within the last second
    turns: tuple[TurnView, ...]  # oldest first, the last one may be under way
    underruns: int = 0
    dropped_chunks: int = 0
    false_starts: int = 0
    drafts: int = 0
    drafts_dropped: int = 0
    draft_hits: int = 0  # drafts that became the reply
    wasted_tokens: int = 0
    wasted_cpu_s: float = 0.0  # an estimate: busy time of think and speak, as if on one core
    load: Load = field(default_factory=Load)
    notices: tuple[Notice, ...] = ()  # the latest last

    @property
    def awaited(self) -> bool:
        """Whether the caller has fallen silent and the reply has not begun."""
        return bool(self.turns) and self.turns[-1].state in (State.PAUSED, State.COMMITTED)
