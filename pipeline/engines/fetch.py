"""Brings a model from the hub: checked first, resumed where it was interrupted, every file's SHA-256 compared.

Listing and transfer are modelscope's own client (`modelscope_hub`, which `modelscope.snapshot_download` calls too:
importing that one costs seven seconds and torch, this one under a second). It resumes `FILE.incomplete` with a Range
request and compares hashes. What it does not do is done here: to say at once that there is no network, to refuse what
does not fit on the disk, to keep an unfinished model apart from a finished one, and to keep two downloads apart.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from pipeline.clock import SystemClock
from pipeline.engines.hub import HubFile, HubModel, Presence, part_of, presence_of, read_manifest, write_manifest
from pipeline.engines.hub_errors import OTHER_HUB, ROOM, in_words
from pipeline.engines.weights import sha256_of
from pipeline.errors import Code, EngineError

SPARE = 256 << 20  # bytes left free on the disk
REACHES_WITHIN_S = 2.0
_REPORTS_EVERY_S = 0.2
_LOCK_POLL_S = 0.2
# The client reads these when it is imported. Its own values make a dead network last 22 s, and stop a file of many
# gigabytes after an hour; what the operator has set stays.
_CLIENT_SETTINGS = {
    "MODELSCOPE_API_MAX_RETRIES": "1",
    "MODELSCOPE_API_CONNECT_TIMEOUT": "5",
    "MODELSCOPE_API_TIMEOUT": "20",
    "MODELSCOPE_DOWNLOAD_MAX_RETRIES": "3",
    "MODELSCOPE_DOWNLOAD_TIMEOUT": "30",
    "MODELSCOPE_DOWNLOAD_TOTAL_TIMEOUT": "86400",
    "MODELSCOPE_LOG_LEVEL": "CRITICAL",
    "TQDM_DISABLE": "1",
}


class Phase(StrEnum):
    WAITING = "waiting"  # for another download of the same model
    CHECKING = "checking"  # reading what is there already
    FETCHING = "fetching"


@dataclass(frozen=True, slots=True)
class Step:
    """How far a download is."""

    phase: Phase
    file: str = ""
    done: int = 0  # bytes on this machine
    total: int = 0  # bytes of the whole model; 0 while it is not known


Report: TypeAlias = Callable[
    [Step], None
]  # called by several threads, one at a time; what it raises stops the download


def no_report(_step: Step) -> None:
    """A Report that tells nobody."""


def fetch(model: HubModel, models: Path, endpoint: str = "", report: Report = no_report) -> Path:
    """The model's directory below `models`, whole. `endpoint` is the hub's address; "" is the client's own.

    EngineError: NETWORK (said within three seconds), UNKNOWN_MODEL, KEY_MISSING (the hub wants a login), DISK_FULL,
    WEIGHTS_CORRUPT (what the hub sends is not what it lists), WEIGHTS_MISSING (the folder cannot be written),
    PACKAGE_MISSING. Whatever interrupts it, KeyboardInterrupt included, the next call goes on from there.
    """
    try:
        with in_words(model, models):
            return _fetch(model, models, endpoint, _stopping(report))
    except _Stopped as stopped:
        raise stopped.reason from None


def _fetch(model: HubModel, models: Path, endpoint: str, report: Report) -> Path:
    models.mkdir(parents=True, exist_ok=True)
    with _alone(model, models, report):
        if verified(model, models, report):
            return models / model.name
        client = _client(endpoint)
        _reach(client.legacy.endpoint)
        files = _listed(client, model)
        part = _collect_in(model, models)
        _require_space(model, part, files)
        _transfer(client, model, models, files, report)
        files = tuple(f if f.sha256 else HubFile(f.path, f.size, sha256_of(part / f.path)) for f in files)
        write_manifest(part, model, files)
        return _finish(part, models / model.name)


class _Stopped(BaseException):
    """A report raised. Not an Exception: the client would try again."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _stopping(report: Report) -> Report:
    """The same report; what it raises comes through everything in between."""

    def tell(step: Step) -> None:
        try:
            report(step)
        except BaseException as reason:
            raise _Stopped(reason) from reason

    return tell


def verified(model: HubModel, models: Path, report: Report = no_report) -> bool:
    """Whether the model is whole, by the SHA-256 of every file; one that was put there by hand is taken as it is."""
    folder = models / model.name
    if presence_of(model, models) is not Presence.WHOLE:
        return False
    listed = read_manifest(folder)
    total, done = sum(f.size for f in listed), 0
    for file in listed:
        report(Step(Phase.CHECKING, file.path, done, total))
        if sha256_of(folder / file.path) != file.sha256:
            return False
        done += file.size
    return True


# -- the hub


def _client(endpoint: str) -> Any:
    """The hub's client. EngineError PACKAGE_MISSING, or NETWORK for what is no address."""
    before = {name: os.environ[name] for name in _CLIENT_SETTINGS if name in os.environ}
    os.environ.update({**_CLIENT_SETTINGS, **before})
    try:
        from modelscope_hub import HubApi
    except ImportError as error:
        raise EngineError(Code.PACKAGE_MISSING, f"downloads need modelscope: {error}", "make setup") from error
    finally:
        for name in _CLIENT_SETTINGS.keys() - before.keys():
            os.environ.pop(name, None)
    if endpoint and urlsplit(endpoint).scheme not in ("http", "https"):
        raise EngineError(Code.NETWORK, f"{endpoint} is not the address of a hub", "write it as https://HOST")
    return HubApi(endpoint=endpoint.rstrip("/") or None)


def _reach(endpoint: str) -> None:
    """EngineError NETWORK, soon, where nothing answers at the hub's address, or at the proxy on the way to it."""
    hub = urlsplit(endpoint)
    through = "" if urllib.request.proxy_bypass(hub.hostname or "") else urllib.request.getproxies().get(hub.scheme, "")
    way = urlsplit(through if "://" in through else f"http://{through}") if through else hub
    port = way.port or (443 if way.scheme == "https" else 80)
    problem: list[str] = ["no answer"]

    def connect() -> None:
        try:
            socket.create_connection((way.hostname or "", port), REACHES_WITHIN_S).close()
            problem.clear()
        except OSError as error:
            problem[:] = [error.strerror or str(error)]

    # A look-up of a name without a network can take a resolver's own, much longer time.
    asking = threading.Thread(target=connect, name="reach-hub", daemon=True)
    asking.start()
    asking.join(REACHES_WITHIN_S + 0.5)
    if problem:
        what = f"nothing answers at {way.hostname}:{port} ({problem[0]})"
        raise EngineError(Code.NETWORK, what, "check the connection, or name another hub with --endpoint")


def _listed(client: Any, model: HubModel) -> tuple[HubFile, ...]:
    """The wanted files. EngineError UNKNOWN_MODEL when there are none."""
    entries = client.list_repo_files(model.id, "model", revision=model.revision)
    files = tuple(
        HubFile(_safe(entry.path), entry.size or 0, (entry.sha256 or "").lower())
        for entry in entries
        if entry.type != "tree" and _wanted(entry.path, model.patterns)
    )
    if not files:
        wanted = " ".join(model.patterns) or "files"
        raise EngineError(Code.UNKNOWN_MODEL, f"the hub has no {wanted} in {model.id} at {model.revision}", OTHER_HUB)
    return files


def _safe(path: str) -> str:
    """A listed path that stays inside the model's folder."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\\" in path or "\0" in path:
        raise EngineError(Code.WEIGHTS_CORRUPT, f"the hub lists a file outside its folder: {path!r}", "do not use it")
    return path


def _wanted(path: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatch(path, pattern) for pattern in patterns)


def _transfer(client: Any, model: HubModel, models: Path, files: tuple[HubFile, ...], report: Report) -> None:
    """All files, in `part_of(model, models)`."""
    tally = _Tally(files, part_of(model, models), report)
    client.download_repo(
        model.id,
        "model",
        revision=model.revision,
        local_dir=part_of(model, models),
        cache_dir=models / ".hub",  # the client's own locks; nothing is stored there
        max_workers=2,
        progress_callbacks=[tally.callback()],
        file_list=[{"Path": f.path, "Size": f.size, "Sha256": f.sha256, "Type": "blob"} for f in files],
    )
    tally.tell(Phase.FETCHING, "")


class _Tally:
    """Adds up the bytes of all files; tells at most a few times a second."""

    def __init__(self, files: tuple[HubFile, ...], part: Path, report: Report) -> None:
        self._report = report
        self._total = sum(f.size for f in files)
        self._done = {f.path: f.size for f in files if _size(part / f.path) == f.size}
        self._lock = threading.Lock()
        self._clock = SystemClock()
        self._told = 0.0

    def callback(self) -> type:
        """What the client makes one of for each file, or each attempt at a file."""
        tally = self

        class Callback:
            def __init__(self, filename: str, file_size: int) -> None:
                self._file = filename
                tally.begin(filename)

            def update(self, size: int) -> None:
                tally.add(self._file, size)

            def end(self) -> None:
                pass

        return Callback

    def begin(self, file: str) -> None:
        with self._lock:
            self._done[file] = 0

    def add(self, file: str, size: int) -> None:
        with self._lock:
            self._done[file] = self._done.get(file, 0) + size
            if self._clock.now() - self._told < _REPORTS_EVERY_S:
                return
        self.tell(Phase.FETCHING, file)

    def tell(self, phase: Phase, file: str) -> None:
        with self._lock:
            self._told = self._clock.now()
            self._report(Step(phase, file, sum(self._done.values()), self._total))


# -- the folder


@contextmanager
def _alone(model: HubModel, models: Path, report: Report) -> Iterator[None]:
    """Nobody else fetches this model into this folder meanwhile, in this process or another."""
    from filelock import FileLock, Timeout

    lock = FileLock(models / f".{model.name}.lock")
    while True:
        try:
            lock.acquire(timeout=_LOCK_POLL_S)
            break
        except Timeout:
            report(Step(Phase.WAITING))
    try:
        yield
    finally:
        lock.release()


def _collect_in(model: HubModel, models: Path) -> Path:
    """Where the files are collected; what is left of a broken model goes there, so that its good files stay."""
    part, folder = part_of(model, models), models / model.name
    if folder.is_dir() and not part.exists() and any(folder.iterdir()):
        folder.rename(part)
    part.mkdir(exist_ok=True)
    return part


def _require_space(model: HubModel, part: Path, files: tuple[HubFile, ...]) -> None:
    """EngineError DISK_FULL, before the first byte."""
    there = sum(min(f.size, max(_size(part / f.path), _size(part / f"{f.path}.incomplete"), 0)) for f in files)
    needed = sum(f.size for f in files) - there + SPARE
    free = shutil.disk_usage(part).free
    if free < needed:
        what = f"{model.name} needs {needed / 1e9:.1f} GB in {part.parent}, where {free / 1e9:.1f} GB are free"
        raise EngineError(Code.DISK_FULL, what, ROOM)


def _finish(part: Path, folder: Path) -> Path:
    """The collected model under its own name; one that was there before is replaced."""
    old = folder.with_name(f"{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    part.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    return folder


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1
