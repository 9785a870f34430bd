"""Models from a hub on this machine: where each lies, and whether all of it is there.

Nothing is fetched here: `python -m pipeline download NAME` does that, in NAME.part, which gets its name only once
every file has arrived and was checked. So a folder called NAME was complete, or was put there by hand.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pipeline.errors import Code, EngineError
from pipeline.ports import EngineOptions

MANIFEST = ".turnaround.json"  # written last, beside the files it lists
_UNFINISHED = "*.incomplete"  # what a hub's own client calls a file that it has not finished


@dataclass(frozen=True, slots=True)
class HubModel:
    """One model repository on ModelScope, at a fixed revision."""

    name: str  # what `download` and the settings call it
    id: str  # "owner/repository"
    revision: str
    licence: str  # SPDX where there is one
    languages: tuple[str, ...]
    size: int  # bytes of the files wanted
    patterns: tuple[str, ...] = ()  # the files wanted, as globs; () is all of them


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file of a model, as the hub lists it."""

    path: str  # relative, with forward slashes
    size: int  # bytes
    sha256: str  # lower case hex; "" where the hub gives none


class Presence(StrEnum):
    """How much of a model is on this machine."""

    ABSENT = "absent"
    HALF = "half"  # a download that was interrupted
    BROKEN = "broken"  # a file is gone, or is not as long as it was
    WHOLE = "whole"


def locate_model(model: HubModel, options: EngineOptions) -> Path:
    """The model's directory. EngineError WEIGHTS_MISSING or WEIGHTS_CORRUPT with the command that fetches it."""
    folder, presence = options.models / model.name, presence_of(model, options.models)
    if presence is Presence.WHOLE:
        return folder
    remedy = f"python -m pipeline download {model.name}"
    if presence is Presence.BROKEN:
        what = f"{model.name} is damaged ({', '.join(damaged(folder))} in {folder})"
        raise EngineError(Code.WEIGHTS_CORRUPT, what, remedy)
    how = "was downloaded only in part" if presence is Presence.HALF else "is not on this machine"
    raise EngineError(Code.WEIGHTS_MISSING, f"{model.name} {how} ({folder})", remedy)


def presence_of(model: HubModel, models: Path) -> Presence:
    """By names and sizes, without reading the files."""
    folder = models / model.name
    if folder.is_dir() and any(folder.iterdir()):
        if any(folder.rglob(_UNFINISHED)):
            return Presence.HALF
        return Presence.BROKEN if damaged(folder) else Presence.WHOLE
    return Presence.HALF if part_of(model, models).is_dir() else Presence.ABSENT


def part_of(model: HubModel, models: Path) -> Path:
    """Where a download of it is collected."""
    return models / f"{model.name}.part"


def damaged(folder: Path) -> list[str]:
    """Files that the folder's manifest lists and that are gone or of another size; [] where there is no manifest."""
    return [f.path for f in read_manifest(folder) if _size(folder / f.path) != f.size]


def read_manifest(folder: Path) -> tuple[HubFile, ...]:
    """The files of a downloaded model; () for one that was put there by hand."""
    try:
        listed = json.loads((folder / MANIFEST).read_text("utf-8"))
        return tuple(HubFile(f["path"], int(f["size"]), f["sha256"]) for f in listed["files"])
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError):
        return (HubFile(MANIFEST, -1, ""),)  # nothing has this size: the list itself is damaged


def write_manifest(folder: Path, model: HubModel, files: tuple[HubFile, ...]) -> None:
    listed = [{"path": f.path, "size": f.size, "sha256": f.sha256} for f in files]
    written = {"id": model.id, "revision": model.revision, "files": listed}
    (folder / MANIFEST).write_text(json.dumps(written, indent=1) + "\n", "utf-8")


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1
