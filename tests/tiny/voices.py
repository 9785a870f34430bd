"""Stand-ins for the voices of the article's stack, so that their engines run without a hub, a GPU or a key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.engines.registry import Kind
from pipeline.ports import EngineOptions
from pipeline.settings import Settings
from tests.tiny.speech_servers import KEY, DashscopeServer, OpenaiServer

STAND_IN = Path(__file__).parent / "cosyvoice_standin"  # a checkout with the upstream's names and signatures


def cosyvoice3(folder: Path, flaws: dict[str, Any] | None = None, **settings: Any) -> EngineOptions:
    """Options under which the engine `cosyvoice3` runs on the stand-in; `flaws` as in its cli/model.py."""
    weights = folder / "models" / "cosyvoice3"
    weights.mkdir(parents=True, exist_ok=True)
    (weights / "cosyvoice3.yaml").write_text(json.dumps(flaws or {}), "utf-8")
    return EngineOptions(
        threads=1,
        cache=folder / "cache",
        models=folder / "models",
        settings=Settings(tts="cosyvoice3", **({"tts_timeout_s": 30.0} | settings)),
        secret=lambda name: str(STAND_IN) if name == "COSYVOICE_HOME" else "",
    )


def openai_speech(_folder: Path) -> EngineOptions:
    """A server on loopback, which ends with the process."""
    return _hosted("openai-speech", OpenaiServer().url)


def dashscope(_folder: Path) -> EngineOptions:
    return _hosted("dashscope", DashscopeServer().url)


def _hosted(name: str, url: str) -> EngineOptions:
    return EngineOptions(threads=1, settings=Settings(tts=name, tts_url=url), secret=lambda _: KEY)


OPTIONS: dict[tuple[Kind, str], Callable[[Path], EngineOptions]] = {
    (Kind.TTS, "cosyvoice3"): cosyvoice3,
    (Kind.TTS, "dashscope"): dashscope,
    (Kind.TTS, "openai-speech"): openai_speech,
}
