"""From settings to something that talks: engines through the registry, a session around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pipeline import spoken
from pipeline.clock import Clock
from pipeline.engines.registry import Kind, create
from pipeline.engines.row import NO_TURN_MODEL
from pipeline.ports import Engine, EngineOptions, Engines, Progress, no_progress
from pipeline.session import Session
from pipeline.settings import Settings
from pipeline.surroundings import engine_options, secret
from pipeline.work import reads_numbers

E = TypeVar("E", bound=Engine)

__all__ = ["Engines", "load_engines", "open_session"]


def load_engines(
    settings: Settings, progress: Progress = no_progress, secret_of: Callable[[str], str] = secret
) -> Engines:
    """Load and warm up one engine a stage. EngineError with a code and a remedy when one cannot be had.

    `progress` hears what is being loaded and the share done, 0..1; `secret_of` gives keys and paths by name.
    """
    step = iter(range(5))

    def options(name: str) -> EngineOptions:
        done = next(step)
        progress(name, done / 5)
        return engine_options(settings, _within(progress, done / 5, 1 / 5), secret_of)

    def warmed(engine: E) -> E:
        engine.warm_up()
        return engine

    turn_model = None
    vad = warmed(create(Kind.VAD, settings.vad, options(settings.vad)))
    if settings.turn_model != NO_TURN_MODEL:
        turn_model = warmed(create(Kind.TURN, settings.turn_model, options(settings.turn_model)))
    asr = warmed(create(Kind.ASR, settings.asr, options(settings.asr)))
    llm = warmed(create(Kind.LLM, settings.llm, options(settings.llm)))
    tts = warmed(create(Kind.TTS, settings.tts, options(settings.tts)))
    if not reads_numbers(tts):
        spoken.warm_up()  # here, where nobody listens yet: it stops the other threads for a moment
    progress("ready", 1.0)
    return Engines(vad, turn_model, asr, llm, tts)


def _within(progress: Progress, start: float, width: float) -> Callable[[str, float], None]:
    return lambda what, share: progress(what, start + min(max(share, 0.0), 1.0) * width)


def open_session(engines: Engines, settings: Settings, clock: Clock | None = None, serial: bool = False) -> Session:
    """A started session for one visitor. Close it when they leave."""
    return Session(engines, settings, clock, serial=serial).start()
