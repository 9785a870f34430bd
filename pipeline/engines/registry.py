"""Finds and makes the engines of the catalogue.

`create` imports the engine's file only then, so a page that lists the rows loads no model and no heavy package.
An engine's file asks `row(kind, name).weights` for what it must locate: the pins stand in the catalogue
and nowhere else.
"""

from __future__ import annotations

import importlib
from typing import Any, Literal, overload

from pipeline.engines.catalogue import ROWS
from pipeline.engines.row import Kind, Row
from pipeline.errors import Code, EngineError
from pipeline.ports import Asr, EngineOptions, Llm, Tts, Turnmodel, Vad

__all__ = ["Kind", "Row", "create", "row", "rows"]


def rows(scripted: bool = False) -> tuple[Row, ...]:
    """Every engine a visitor may choose; with `scripted`, those for tests and demos of failure as well."""
    return tuple(r for r in ROWS if scripted or not r.scripted)


def row(kind: Kind, name: str) -> Row:
    """The row of one engine. EngineError UNKNOWN_ENGINE names the ones there are."""
    for candidate in ROWS:
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
