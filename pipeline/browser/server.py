"""A Streamlit app in a subprocess, for as long as a with block lasts."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from pipeline.clock import SystemClock

ROOT = Path(__file__).resolve().parents[2]
PROXIES = ("http_proxy", "https_proxy", "all_proxy")
STARTS_WITHIN_S = 120.0


class Server:
    """`with Server(script) as server: ... server.url`. RuntimeError with the log's end when it does not come up."""

    def __init__(
        self,
        script: Path,
        log: Path,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        module: str = "streamlit",  # what stands in for it takes the same arguments
    ) -> None:
        self._script = script
        self._module = module
        self._log = log
        self._options = list(options)
        self._environment = dict(environment or {})
        self._clock = SystemClock()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Server:
        environment = {k: v for k, v in os.environ.items() if k.lower() not in PROXIES}
        path = os.pathsep.join(p for p in (str(ROOT), environment.get("PYTHONPATH", "")) if p)
        command = [sys.executable, "-m", self._module, "run", str(self._script)]
        fixed = {
            "server.port": str(self.port),
            "server.address": "127.0.0.1",
            "server.headless": "true",
            "server.fileWatcherType": "none",
            "browser.gatherUsageStats": "false",
        }
        command += [part for name, value in fixed.items() for part in (f"--{name}", value)] + self._options
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**environment, "PYTHONPATH": path, **self._environment},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self._await()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop()

    def _await(self) -> None:
        assert self._process is not None
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        until = self._clock.now() + STARTS_WITHIN_S
        while self._clock.now() < until and self._process.poll() is None:
            with (
                contextlib.suppress(OSError, urllib.error.URLError),
                opener.open(self.url + "_stcore/health", timeout=1) as answer,
            ):
                if answer.status == 200:
                    return
            self._clock.sleep(0.2)
        raise RuntimeError(f"the app did not come up: {self.log_tail()}")

    def log_tail(self, characters: int = 2000) -> str:
        return self._log.read_text(errors="replace")[-characters:]

    def _stop(self) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
