"""Recorded callers: a folder of clips and the manifest that says what is said in each, and when it truly ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEFAULT_FOLDER = Path(__file__).parents[2] / "assets" / "callers"
NOISE_DBFS = -62.0  # a quiet room, for a manifest that does not say


class BadCallers(ValueError):
    """The folder or its manifest cannot be used; the message says what is wrong and where."""


@dataclass(frozen=True, slots=True)
class Caller:
    """One clip. Times are seconds from its first sample."""

    path: Path
    text: str
    speech_end_s: float  # true end of speech: what every latency is counted from
    lang: str = "en"
    kind: str = "plain"
    noise_dbfs: float = NOISE_DBFS  # the room, which goes on after the clip
    speech_start_s: float = 0.0  # the true start of speech
    fact: str = ""  # what a right reply holds; "" when the question has none

    @property
    def file(self) -> str:
        return self.path.name


def read_callers(folder: Path, lang: str | None = None, limit: int | None = None) -> list[Caller]:
    """The callers of `folder`/manifest.json, in its order; of `lang` only, the first `limit` only.

    Raises BadCallers when there is no manifest, it is broken, a clip it names is absent, or nothing is left.
    """
    manifest = folder / "manifest.json"
    try:
        loaded = json.loads(manifest.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadCallers(f"{manifest} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise BadCallers(f"{manifest} is not JSON: {error}") from error
    clips = loaded.get("clips") if isinstance(loaded, Mapping) else None
    if not isinstance(clips, list):
        raise BadCallers(f'{manifest} has no list named "clips"')
    callers = [_caller(folder, clip) for clip in clips]
    chosen = [c for c in callers if lang is None or c.lang == lang][:limit]
    if not chosen:
        raise BadCallers(f"{manifest} has no clips{f' with lang {lang!r}' if lang else ''}")
    return chosen


def _caller(folder: Path, clip: Any) -> Caller:
    try:
        caller = Caller(
            path=folder / str(clip["file"]),
            text=str(clip["text"]),
            speech_end_s=float(clip["speech_end_s"]),
            speech_start_s=float(clip.get("speech_start_s", 0.0)),
            lang=str(clip.get("lang", "en")),
            kind=str(clip.get("kind", "plain")),
            noise_dbfs=float(clip.get("noise_dbfs", NOISE_DBFS)),
            fact=str(clip.get("fact") or ""),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadCallers(f"a clip of {folder / 'manifest.json'} is broken ({error!r}): {clip!r}") from error
    if not caller.path.is_file():
        raise BadCallers(f"{caller.path} is in the manifest but not in the folder")
    return caller
