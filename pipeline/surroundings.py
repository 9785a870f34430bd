"""What the operator says through the environment. Only pages and commands read it; what they hand on is values."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pipeline.ports import EngineOptions, Progress, no_progress
from pipeline.settings import Settings

MODELS = "TURNAROUND_MODELS"  # the folder of the models from a hub
PROFILE = "TURNAROUND_PROFILE"  # which engines a page and a command begin with
DOWNLOADS = "TURNAROUND_DOWNLOADS"  # "1": who opens the page may start downloads


def models_folder() -> Path:
    """Where models from a hub lie."""
    named = os.environ.get(MODELS, "").strip()
    return Path(named).expanduser() if named else EngineOptions().models


def profile_named() -> str:
    """The profile asked for; "" is the default."""
    return os.environ.get(PROFILE, "").strip()


def downloads_allowed() -> bool:
    """Whether visitors may start downloads: gigabytes on somebody else's disk, so only where the operator says so."""
    return os.environ.get(DOWNLOADS, "").strip().lower() in ("1", "true", "yes", "on")


def secret(name: str) -> str:
    """A key or a path out of the environment; "" where it is not set."""
    return os.environ.get(name, "").strip()


def engine_options(
    settings: Settings, progress: Progress = no_progress, secret_of: Callable[[str], str] = secret
) -> EngineOptions:
    """What every engine is given on this machine."""
    return EngineOptions(
        threads=settings.threads,
        models=models_folder(),
        progress=progress,
        settings=settings,
        secret=secret_of,
    )
