"""Openers: the first words of a reply, chosen by what kind of thing was said, never the same twice running.

They come out of assets/openers.toml and are spoken into the phrase cache at warm-up, so that the first sound of a reply
needs neither model nor voice. The reply itself follows while they play.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.errors import Code, TurnaroundError

FILE = Path(__file__).resolve().parent.parent / "assets" / "openers.toml"


class Kind(BaseModel):
    """A kind of utterance: how it is known, and what may be said first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    cues: tuple[str, ...]  # none: everything else
    say: tuple[str, ...]  # none: no opener suits


@dataclass(frozen=True, slots=True)
class Openers:
    """The kinds of one language, in the order they are tried."""

    kinds: tuple[Kind, ...]

    def texts(self) -> tuple[str, ...]:
        """Everything that may be said: what the voice prepares."""
        return tuple(dict.fromkeys(text for kind in self.kinds for text in kind.say))

    def choose(self, said: str, last: str) -> str:
        """What to begin the reply to `said` with; not `last`. "" where nothing suits."""
        kind = next((k for k in self.kinds if not k.cues or any(_holds(said, cue) for cue in k.cues)), None)
        if kind is None or not kind.say:
            return ""
        # Turning through them in order: no randomness, so a run can be repeated.
        following = kind.say.index(last) + 1 if last in kind.say else 0
        return kind.say[following % len(kind.say)]


def _holds(said: str, cue: str) -> bool:
    if not cue.isascii():
        return cue in said
    return re.search(rf"(?<![\w']){re.escape(cue)}(?![\w'])", said.lower()) is not None


def load(language: str, file: Path = FILE) -> Openers:
    """The openers of "en" or "zh". TurnaroundError BAD_SCENARIO when the file is not as it should be."""
    return _read(language, file, file.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read(language: str, file: Path, _version: int) -> Openers:
    try:
        rows = tomllib.loads(file.read_text(encoding="utf-8"))[language]
        return Openers(tuple(Kind.model_validate(row) for row in rows))
    except (tomllib.TOMLDecodeError, KeyError, ValidationError) as error:
        raise TurnaroundError(Code.BAD_SCENARIO, f"{file.name}: {error}", f"mend assets/{file.name}") from error
