"""A session that needs no engine: what a page test shows, and what the screenshots were taken of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.clock import Clock, ManualClock
from pipeline.errors import Code
from pipeline.events import Load, Notice, NoticeCode, Snapshot, State, TurnView
from pipeline.ports import Chunk
from pipeline.settings import Settings
from pipeline.timeline import Mark, Timeline

NASTY = "<b>x</b> **y** $z$ :smile: [a](http://b) # h"


def timeline(listen: float, think: float, speak: float, at: float = 100.0) -> Timeline:
    """The marks of a turn with these spans, milliseconds."""
    heard = at + listen / 1e3
    thought = heard + think / 1e3
    marks = {
        Mark.SPEECH_START: at - 1.8,
        Mark.SPEECH_END: at,
        Mark.TRANSCRIPT: heard - 0.01,
        Mark.ENDPOINT: heard,
        Mark.FIRST_TOKEN: thought - 0.005,
        Mark.FIRST_PHRASE: thought,
        Mark.FIRST_AUDIO: thought + speak / 2e3,
        Mark.RELEASED: thought + speak / 1e3,
    }
    made = Timeline()
    for mark, instant in marks.items():
        made = made.stamped(mark, instant)
    return made


def turn(number: int, spans: tuple[float, float, float] | None = (70.0, 30.0, 20.0), **changes: Any) -> TurnView:
    """An answered turn, or with spans=None one that never sounded."""
    marks = timeline(*spans) if spans else Timeline().stamped(Mark.SPEECH_START, 98.2)
    view = TurnView(
        number=number,
        state=State.ANSWERED,
        heard="What are your opening hours on Saturday?",
        final=True,
        reply="We are open nine to six, Monday to Saturday.",
        spoken="We are open nine to six, Monday to Saturday.",
        timeline=marks,
        spans=marks.spans(),
        drafted=False,
        cached=False,
        p_finished=0.97,
        code=None,
        detail="",
    )
    return replace(view, **changes)


def demo_turns() -> tuple[TurnView, ...]:
    """One of each kind a page can meet, the last one under way."""
    return (
        turn(1, (312.0, 0.0, 96.0), drafted=True),
        turn(
            2,
            (68.0, 0.0, 0.2),
            heard="Is shipping free?",
            reply="Shipping is free above fifty dollars.",
            drafted=True,
            cached=True,
        ),
        turn(3, None, state=State.FAILED, heard="", reply="", spoken="", code=Code.NOTHING_HEARD),
        turn(
            4,
            (210.0, 64.0, 41.0),
            heard="How long does delivery take?",
            reply="Delivery takes three to five days. You will get a message when it is on its way.",
            spoken="Delivery takes three to five days. You will",
            state=State.INTERRUPTED,
        ),
        turn(5, (98.0, 22.0, 27.0), heard=NASTY, reply=f"You said: {NASTY}", drafted=True),
        turn(
            6, None, heard="Do you ship to Canada?", reply="", spoken="", state=State.FAILED, code=Code.LLM_TIMEOUT,
            detail="llm silent for 8 s",
        ),
        turn(7, (88.0, 31.0, 29.0), heard="Can I return the shoes?", reply="Yes, within thirty days with a receipt."),
        turn(
            8, None, heard="My order number is four five", final=False, reply="", spoken="", state=State.HEARING,
            p_finished=None,
        ),
    )  # fmt: skip


class FakeSession:
    """Session's outside. `turns` is what the next snapshot shows; what was applied and heard is kept."""

    def __init__(self, turns: tuple[TurnView, ...] = (), clock: Clock | None = None) -> None:
        self.clock: Clock = clock or ManualClock()
        self.settings = Settings()
        self.turns = turns
        self.connected = bool(turns)
        self.notices: tuple[Notice, ...] = ()
        self.applied: list[Settings] = []
        self.heard: list[Chunk] = []
        self.pulled = 0
        self.voice = np.zeros(0, np.int16)
        self.closed = False
        self.refuses: Exception | None = None

    def start(self) -> FakeSession:
        return self

    def close(self) -> None:
        self.closed = True

    def hang_up(self) -> None:
        self.hung_up = True

    def hear(self, chunk: Chunk) -> None:
        self.heard.append(chunk)

    def pull(self, n: int) -> Any:
        self.pulled += n
        out, self.voice = self.voice[:n], self.voice[n:]
        return np.pad(out, (0, n - len(out)))

    def slot(self, late_s: float) -> None: ...

    def downlink(self, ms: float) -> None: ...

    def apply(self, settings: Settings) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.applied.append(settings)
        self.settings = settings

    def snapshot(self) -> Snapshot:
        now = self.clock.now()
        return Snapshot(
            version=len(self.turns),
            at=now,
            level_dbfs=-24.0 if self.connected else -100.0,
            speaking=self.connected,
            connected=self.connected,
            turns=self.turns,
            underruns=1,
            dropped_chunks=0,
            false_starts=1,
            drafts=6,
            drafts_dropped=2,
            draft_hits=4,
            wasted_tokens=31,
            wasted_cpu_s=0.42,
            load=Load(cpu_share=0.63, rss_mb=612.0, late_slots=3, slots=4210),
            notices=self.notices,
        )


def notice(code: NoticeCode = NoticeCode.AUDIO_CLIPPED, at: float = 100.0) -> Notice:
    return Notice(code, at)
