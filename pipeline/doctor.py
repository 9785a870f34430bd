"""`python -m pipeline doctor`: what this machine and this installation have, and a remedy for whatever is wrong.

Nothing is downloaded and nothing is changed. Packages are looked up by their metadata; the compiled ones of the
embedded path are imported once each, in a process of its own: a wheel built for another CPU kills its process.
"""

from __future__ import annotations

import json
import logging
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from pipeline import stock
from pipeline.bench.environment import ROOT, cores, environment, installed
from pipeline.cli import complain, given_settings, parser_with_set
from pipeline.engines.registry import Row, row
from pipeline.errors import TurnaroundError
from pipeline.ports import EngineOptions
from pipeline.settings import Settings
from pipeline.stock import PIN, mismatches
from pipeline.surroundings import engine_options

OLDEST, NEWEST = (3, 11), (3, 13)
COMPILED = ("numpy", "onnxruntime", "onnx", "tokenizers", "xllamacpp", "av", "soundfile", "soxr")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FREE_MEMORY_GB = 1.5  # a process with the embedded engines takes 1.0 GB; the browser wants its share
FREE_DISK_GB = 0.5  # weights fetched at run time


class Status(StrEnum):
    OK = "ok"
    WARN = "warn"  # the app runs; something beside it will not
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at."""

    name: str
    status: Status
    found: str
    remedy: str = ""  # what to do; set unless the status is OK


def main(args: list[str]) -> int:
    """Exit code: 0 when nothing failed (warnings allowed), 1 otherwise."""
    parser = parser_with_set("python -m pipeline doctor", __doc__)
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of lines")
    parser.add_argument("--port", type=int, default=8501, help="the port the page will use (default %(default)s)")
    parser.add_argument("--engines", action="store_true", help="only the chosen engines: quick; says nothing when well")
    given = parser.parse_args(args)
    try:
        settings = given_settings(given)
    except ValueError as error:
        complain(str(error))
        return 2
    if given.engines:
        return _engines_only(settings)
    checks = examine(settings, given.port)
    failed = [c for c in checks if c.status is Status.FAIL]
    if given.json:
        report = {"ok": not failed, "checks": [asdict(c) for c in checks], "environment": environment()}
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        print(as_lines(checks))
        print(f"\n{len(failed)} of {len(checks)} checks failed." if failed else "\nReady: `make run` opens the page.")
    return 1 if failed else 0


def _engines_only(settings: Settings) -> int:
    """What `make run` says before the page opens: the engines that cannot start, and how to get them."""
    short = stock.shortages(settings, engine_options(settings))
    if short:
        print(stock.in_lines(short))
    return 1 if short else 0


def examine(settings: Settings, port: int = 8501) -> list[Check]:
    """Every check, in the order a new user would need them."""
    return [
        *_guarded("python", python_version),
        *_guarded("packages", packages),
        *_guarded("imports", compiled),
        *_guarded("engines", lambda: engines(settings)),
        *_guarded("transport", transport),
        *_guarded("machine", machine),
        *_guarded("port", lambda: iter((port_free(port),))),
        *_guarded("browser", browser),
    ]


def _guarded(name: str, check: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    """A check that breaks is a finding as well; the others still run."""
    try:
        yield from check()
    except TurnaroundError as error:
        yield Check(name, Status.FAIL, error.what, error.remedy or "run `make setup`")
    except Exception as error:
        yield Check(name, Status.FAIL, f"{type(error).__name__}: {error}", "run `make setup`, then this again")


def as_lines(checks: list[Check]) -> str:
    """For the terminal: a line a check, and under each that is not well its remedy."""
    lines = []
    for c in checks:
        lines.append(f"{c.status.upper():<5} {c.name:<24} {c.found}")
        if c.remedy:
            lines.append(f"{'':<30} -> {c.remedy}")
    return "\n".join(lines)


# -- the installation


def python_version(version: tuple[int, int] = sys.version_info[:2]) -> Iterator[Check]:
    found = f"{version[0]}.{version[1]}"
    fits = OLDEST <= version <= NEWEST
    remedy = "" if fits else "install Python 3.11 to 3.13, then `make distclean setup PYTHON=python3.11`"
    yield Check("python", Status.OK if fits else Status.FAIL, found, remedy)


def packages(root: Path = ROOT, version_of: Callable[[str], str] = installed) -> Iterator[Check]:
    """Installed versions against the pins: the app's must match, the tests' are only missed by the tests."""
    needed = pins(root / "requirements.txt")
    wrong = mismatches(needed, version_of)
    yield _pinned("packages", wrong, len(needed), Status.FAIL, "make setup")
    tests = mismatches(pins(root / "requirements-dev.txt"), version_of)
    if tests:
        yield _pinned("packages for tests", tests, 0, Status.WARN, "make setup-dev (only the tests need them)")
    if version_of("torchaudio"):
        found, remedy = "installed: it does not load beside torch 2.13.0", "pip uninstall torchaudio"
        yield Check("torchaudio", Status.FAIL, found, remedy)


def pins(requirements: Path) -> dict[str, str]:
    """Package -> pinned version of a requirements file."""
    found = (PIN.match(line) for line in requirements.read_text(encoding="utf-8").splitlines())
    return {m[1]: m[2] for m in found if m}


def _pinned(name: str, wrong: list[str], count: int, bad: Status, remedy: str) -> Check:
    if not wrong:
        return Check(name, Status.OK, f"all {count} pins match")
    return Check(name, bad, ", ".join(wrong), remedy)


def compiled(names: tuple[str, ...] = COMPILED) -> Iterator[Check]:
    """Whether each compiled package loads on this CPU and system."""
    broken = [f"{name}: {why}" for name in names if (why := _why_not_imported(name))]
    if broken:
        remedy = "`make distclean setup` gets the wheels anew; if it stays, this CPU or system is not served by them"
        if any("libgomp" in line for line in broken):
            remedy = "install the OpenMP runtime: `apt-get install libgomp1`"
        yield Check("imports", Status.FAIL, "; ".join(broken), remedy)
    else:
        yield Check("imports", Status.OK, f"{', '.join(names)} load")


def _why_not_imported(name: str) -> str:
    """The empty string when it loads; else its error, or the signal that killed it."""
    done = subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, text=True, timeout=120)
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"killed by signal {-done.returncode}"


# -- engines and transport


def engines(settings: Settings, options: EngineOptions | None = None) -> Iterator[Check]:
    """The engines of `settings`: packages, models, keys and weights, without fetching or loading any."""
    options = options or engine_options(settings)
    for kind, name in stock.chosen(settings):
        title = f"{kind.value}: {name}"
        try:
            yield _engine(title, row(kind, name), settings, options)
        except TurnaroundError as error:
            yield Check(title, Status.FAIL, error.what, error.remedy)


def _engine(title: str, engine: Row, settings: Settings, options: EngineOptions) -> Check:
    if lacks := stock.lacks(engine, settings, options):
        remedies = dict.fromkeys(lack.how for lack in lacks)
        return Check(title, Status.FAIL, "; ".join(lack.what for lack in lacks), " && ".join(remedies))
    absent = stock.unfetched(engine, options)
    if absent:
        remedy = f"{engine.install} (or connect: the first start fetches them)"
        return Check(title, Status.WARN, f"weights not on this machine yet: {', '.join(absent)}", remedy)
    return Check(title, Status.OK, f"{engine.size_mb:g} MB of weights verified, {engine.licence}")


def transport() -> Iterator[Check]:
    """The library versions the tuned transport was tested with, and every private name it replaces."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # streamlit warns of running outside a page
    try:
        from pipeline.transport import install

        versions = install.check_versions()
        # The media loop is only read when a call begins; none is started here.
        patches = install.tuned_patches(cast(Any, None))
    finally:
        logging.disable(before)
    misfits = [p.where() for p in patches if not p.fits()]
    if misfits:
        raise install.untested(f"not what was tested: {', '.join(misfits)}")
    found = ", ".join(f"{name} {version}" for name, version in versions.items())
    yield Check("transport", Status.OK, f"{found}; {len(patches)} replaced names fit")


# -- the machine


def machine(cache: Path | None = None) -> Iterator[Check]:
    import psutil

    n = cores()
    few = "" if n >= 2 else "it runs on one core, with long pauses; give it two"
    yield Check("cores", Status.WARN if few else Status.OK, str(n), few)
    free = psutil.virtual_memory().available / 1e9
    tight = "" if free >= FREE_MEMORY_GB else f"close something: the app and its browser want {FREE_MEMORY_GB} GB"
    yield Check("memory", Status.FAIL if tight else Status.OK, f"{free:.1f} GB available", tight)
    yield disk(cache or EngineOptions().cache)


def disk(cache: Path) -> Check:
    """Room where weights and the requantised model are kept; the folder itself may not exist yet."""
    there = next(p for p in (cache, *cache.parents) if p.exists())
    free = shutil.disk_usage(there).free / 1e9
    full = "" if free >= FREE_DISK_GB else f"free {FREE_DISK_GB} GB in {there}"
    return Check("disk", Status.FAIL if full else Status.OK, f"{free:.1f} GB free for {cache}", full)


def port_free(port: int) -> Check:
    """Whether the page can listen on `port` of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            remedy = f"Turnaround may be running already; else another port: make run PORT={port + 1}"
            return Check(f"port {port}", Status.FAIL, f"taken ({getattr(error, 'strerror', None) or error})", remedy)
    return Check(f"port {port}", Status.OK, "free")


def browser(find: Callable[[str], str | None] = shutil.which) -> Iterator[Check]:
    """A Chromium and its driver: only the browser bench and the browser tests need them."""
    path = next((p for name in BROWSERS if (p := find(name))), None)
    missing = [] if path else ["no Chromium on the path"]
    missing += [] if installed("playwright") else ["playwright is not installed"]
    if missing:
        remedy = "install chromium (apt-get install chromium) and `make setup-dev`; only the browser bench needs them"
        yield Check("browser for the bench", Status.WARN, ", ".join(missing), remedy)
    else:
        yield Check("browser for the bench", Status.OK, str(path))
