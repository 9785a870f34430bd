"""The voices of assets/voices: a recording and its transcript each, for engines that imitate a voice.

NAME.toml beside the recording is the voice called NAME. The files are not kept open and hold no person's data but
what their owner put there.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.errors import Code, EngineError

FOLDER = Path(__file__).resolve().parent.parent / "assets" / "voices"
DEFAULT = "xiaoni"


class _File(BaseModel):
    """What NAME.toml holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    en: str  # its name for the page
    zh: str
    audio: str  # the recording's file name, in the same folder
    transcript: str = Field(min_length=1)
    language: str
    licence: str  # SPDX
    source: str  # where the recording is from


@dataclass(frozen=True, slots=True)
class Voice:
    """One voice."""

    name: str
    en: str
    zh: str
    audio: Path
    transcript: str  # word for word what the recording says
    language: str
    licence: str


def voices(folder: Path = FOLDER) -> Mapping[str, Voice]:
    """Every voice by its name. EngineError TTS_FAILED names the file that is not as it should be."""
    version = tuple((path.name, path.stat().st_mtime_ns) for path in sorted(folder.glob("*.toml")))
    return _read(folder, version)


@lru_cache(maxsize=8)
def _read(folder: Path, files: tuple[tuple[str, int], ...]) -> Mapping[str, Voice]:
    return MappingProxyType({voice.name: voice for voice in (_voice(folder / name) for name, _ in files)})


def _voice(path: Path) -> Voice:
    try:
        file = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, ValidationError) as error:
        what = f"the voice file {path.name}: {error}"
        raise EngineError(Code.TTS_FAILED, what, f"mend assets/voices/{path.name}") from error
    audio = path.parent / Path(file.audio).name
    if not audio.is_file():
        what = f"the voice {path.stem} has no recording {file.audio}"
        raise EngineError(Code.TTS_FAILED, what, f"put {file.audio} beside {path.name}")
    return Voice(path.stem, file.en, file.zh, audio, file.transcript, file.language, file.licence)
