"""The page under measurement: app.py as everybody gets it, with the settings and the turn log that a bench asks for.

    python -m pipeline.ui.measured run app.py ...

takes the place of `python -m streamlit run app.py ...`. What to do stands in the environment, as JSON.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.web import cli

from pipeline import build
from pipeline.events import TurnView
from pipeline.session import Session
from pipeline.settings import Settings
from pipeline.ui import controls

VARIABLE = "TURNAROUND_MEASURE"
LOOK_S = 0.1
COSTS = ("cold", "queued_ms", "late_slots", "holds", "drafts", "drafts_dropped", "wasted_tokens", "wasted_s")


@dataclass(frozen=True, slots=True)
class Order:
    """What the bench wants of the page."""

    log: str  # file the ended turns are appended to, a JSON line each
    settings: dict[str, Any]
    serial: bool = False

    def environment(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def given(cls) -> Order:
        return cls(**json.loads(os.environ[VARIABLE]))


def as_line(turn: TurnView, underruns: int) -> str:
    """One ended turn; the marks in seconds on the machine's monotonic clock. `underruns`: of the session so far."""
    return json.dumps(
        {
            "number": turn.number,
            "state": turn.state.value,
            "heard": turn.heard,
            "reply": turn.reply,
            "drafted": turn.drafted,
            "cached": turn.cached,
            "code": turn.code.value if turn.code else None,
            "detail": turn.detail,
            "underruns": underruns,
            **{name: getattr(turn, name) for name in COSTS},
            "marks": {mark.value: at for mark, at in turn.timeline.marks.items()},
        },
        ensure_ascii=False,
    )


def follow(session: Session, log: Path) -> None:
    """Append each turn as it ends, for as long as the process lives."""

    def write() -> None:
        written = 0
        while True:
            seen = session.snapshot()
            ended = [t for t in seen.turns if t.ended and t.number > written]
            if ended:
                with log.open("a", encoding="utf-8") as file:
                    file.writelines(as_line(t, seen.underruns) + "\n" for t in ended)
                written = ended[-1].number
            session.clock.sleep(LOOK_S)

    threading.Thread(target=write, name="turnaround-turn-log", daemon=True).start()


def main() -> None:
    order = Order.given()
    settings = Settings.model_validate(order.settings)
    open_plain = build.open_session

    def open_followed(*args: Any, **more: Any) -> Session:
        session = open_plain(*args, **{**more, "serial": order.serial})
        follow(session, Path(order.log))
        return session

    def current() -> Settings:
        kept: Settings = st.session_state.setdefault("settings", settings)
        return kept

    build.open_session = open_followed
    controls.current = current
    cli.main(prog_name="streamlit")


if __name__ == "__main__":
    main()
