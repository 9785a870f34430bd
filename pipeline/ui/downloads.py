"""Downloads that visitors share: each is `python -m pipeline download NAME` in a process of its own.

Its own process, because hashing gigabytes in this one would be heard in somebody's call, and because it can be stopped
at any moment: the next one goes on from there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

import streamlit as st

from pipeline.clock import Clock, SystemClock
from pipeline.engines.hub import HubModel
from pipeline.errors import Code, TurnaroundError

ROOT = Path(__file__).resolve().parents[2]
STOPPED_RC = 130
_STOPS_WITHIN_S = 10.0
_PACE_OVER_S = 1.0  # a pace measured over less says little


class Fate(StrEnum):
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a download is."""

    phase: str = "begin"  # or a fetch.Phase
    done: int = 0  # bytes
    total: int = 0  # bytes
    pace: float = 0.0  # bytes a second since it began; 0 while that says little

    @property
    def share(self) -> float:
        return min(1.0, self.done / self.total) if self.total else 0.0


class Job:
    """One download, followed by a thread. Any page may look at it or cancel it."""

    def __init__(self, model: HubModel, models: Path, clock: Clock | None = None) -> None:
        self.model = model
        self.fate = Fate.RUNNING
        self.progress = Progress(total=model.size)
        self.error: TurnaroundError | None = None
        self._clock: Clock = clock or SystemClock()
        self._began: tuple[float, int] | None = None  # when the first bytes came, and how many there were already
        self._cancelled = False
        self._failure: dict[str, str] = {}
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the process)
        self._process = subprocess.Popen(
            _command(model, models), cwd=ROOT, env=_environment(), stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self._thread = threading.Thread(target=self._follow, name=f"download-{model.name}", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        return self.fate is Fate.RUNNING

    def cancel(self) -> None:
        """Stop it. What has arrived stays, and the next download goes on from there."""
        self._cancelled = True
        if self._process.poll() is None:
            self._process.terminate()

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within `seconds`."""
        self._thread.join(seconds)
        return not self.running

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._take(line)
        try:
            rc = self._process.wait(_STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            rc = self._process.wait()
        if rc == 0:
            self.fate = Fate.DONE
        elif self._cancelled or rc == STOPPED_RC:
            self.fate = Fate.STOPPED
        else:
            self.error = _error(self._failure, rc, self._log)
            self.fate = Fate.FAILED
        self._log.close()

    def _take(self, line: str) -> None:
        """One line of its JSON."""
        try:
            said: dict[str, Any] = json.loads(line)
        except ValueError:
            return
        if "code" in said:
            self._failure = said
        elif "phase" in said:
            done, total = int(said.get("done", 0)), int(said.get("total", 0)) or self.model.size
            self.progress = Progress(str(said["phase"]), done, total, self._pace(said["phase"], done))

    def _pace(self, phase: str, done: int) -> float:
        if phase != "fetching":
            return 0.0
        now = self._clock.now()
        if self._began is None:
            self._began = (now, done)
        since, before = now - self._began[0], self._began[1]
        return (done - before) / since if since >= _PACE_OVER_S else 0.0


class Downloads:
    """At most one download a model, whoever asks for it. Thread-safe."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()

    def start(self, model: HubModel, models: Path) -> Job:
        """A new download, or the one that is running already."""
        with self._lock:
            job = self._jobs.get(model.name)
            if job is None or not job.running:
                job = self._jobs[model.name] = Job(model, models)
            return job

    def of(self, model: HubModel) -> Job | None:
        """The last download of this model since the server started."""
        return self._jobs.get(model.name)


@st.cache_resource(show_spinner=False)
def downloads() -> Downloads:
    """Those of this server."""
    return Downloads()


def _command(model: HubModel, models: Path) -> list[str]:
    gently = ["nice", "-n", "10"] if shutil.which("nice") else []
    return [*gently, sys.executable, "-m", "pipeline", "download", model.name, "--json", "--dir", str(models)]


def _environment() -> dict[str, str]:
    # The profile of the page is no business of a download, and a wrong one would stop it.
    return {name: value for name, value in os.environ.items() if name != "TURNAROUND_PROFILE"}


def _error(failure: dict[str, str], rc: int, log: IO[bytes]) -> TurnaroundError:
    """What the download said of itself, or the last line of what it left behind."""
    if failure.get("code") in set(Code):
        return TurnaroundError(Code(failure["code"]), failure.get("what", ""), failure.get("remedy", ""))
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").strip().splitlines()
    return TurnaroundError(Code.INTERNAL, lines[-1] if lines else f"the download ended with exit code {rc}")
