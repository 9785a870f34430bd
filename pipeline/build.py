"""From settings to something that talks: engines through the registry, a session around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline.clock import Clock
from pipeline.engines.registry import Kind, create
from pipeline.ports import EngineOptions, Engines, Progress, no_progress
from pipeline.session import Session
from pipeline.settings import Settings

NO_TURN_MODEL = "none"

__all__ = ["Engines", "load_engines", "open_session"]


def load_engines(settings: Settings, progress: Progress = no_progress) -> Engines:
    """Load and warm up one engine a stage. EngineError with a code and a remedy when one cannot be had.

    `progress` hears what is being loaded and the share done, 0..1.
    """
    chosen = [
        (Kind.VAD, settings.vad),
        (Kind.TURN, settings.turn_model),
        (Kind.ASR, settings.asr),
        (Kind.LLM, settings.llm),
        (Kind.TTS, settings.tts),
    ]
    made: dict[Kind, Any] = {}
    for index, (kind, name) in enumerate(chosen):
        if kind is Kind.TURN and name == NO_TURN_MODEL:
            continue
        within = _within(progress, index / len(chosen), 1 / len(chosen))
        within(name, 0.0)
        engine = create(kind, name, EngineOptions(threads=settings.threads, progress=within))
        within(name, 0.7)
        engine.warm_up()
        made[kind] = engine
    progress("ready", 1.0)
    return Engines(
        vad=made[Kind.VAD],
        turn_model=made.get(Kind.TURN),
        asr=made[Kind.ASR],
        llm=made[Kind.LLM],
        tts=made[Kind.TTS],
    )


def _within(progress: Progress, start: float, width: float) -> Callable[[str, float], None]:
    return lambda what, share: progress(what, start + min(max(share, 0.0), 1.0) * width)


def open_session(engines: Engines, settings: Settings, clock: Clock | None = None, serial: bool = False) -> Session:
    """A started session for one visitor. Close it when they leave."""
    return Session(engines, settings, clock, serial=serial).start()
