"""Tiny models with random weights, servers on loopback and stand-ins: what the engines run on that have no weights in a
wheel, through the real libraries.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeAlias

from pipeline.engines.row import Kind
from pipeline.ports import EngineOptions

Maker: TypeAlias = Callable[[Path], EngineOptions]  # builds what an engine needs under a folder
_MODULES = ("funasr", "chat", "voices")


@cache
def makers() -> dict[tuple[Kind, str], Maker]:
    """How each engine without weights in a wheel is made to run here. Imported late: the stand-in servers are modules
    beside this one and need none of it."""
    found: dict[tuple[Kind, str], Maker] = {}
    for name in _MODULES:
        options = importlib.import_module(f"{__name__}.{name}").OPTIONS
        assert not found.keys() & options.keys(), f"two makers of {found.keys() & options.keys()}"
        found |= options
    return found
