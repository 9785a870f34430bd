"""Brings CosyVoice's source code, the packages it imports, and with the project's own downloader its weights.
`make cosyvoice` runs it.

    python tools/fetch_cosyvoice.py [FOLDER]     default: ~/.cache/turnaround/cosyvoice

The code is a git checkout at a fixed commit with its submodule; it is not part of this project and stays under its own
licences (Apache-2.0, and MIT for Matcha-TTS). Nothing is done twice: a second run goes on where the first one stopped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path.home() / ".cache" / "turnaround" / "cosyvoice"
SOURCE = os.environ.get("COSYVOICE_SOURCE", "https://github.com/FunAudioLLM/CosyVoice.git")  # or a mirror of it
COMMIT = "ace7c47f41bbd303aa6bf1ea80e6f9fbd595cd40"
SUBMODULE = "third_party/Matcha-TTS"
PATIENCE_S = 20  # for the first answer of the server; the clone itself may take as long as it needs
MODEL = "cosyvoice3"


class Refused(Exception):
    """It cannot go on; the message says why and what to do."""


def main(args: list[str]) -> int:
    if len(args) > 1 or args[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 2
    folder = Path(args[0]).expanduser().resolve() if args else FOLDER
    try:
        code(folder)
        packages()
        weights()
    except Refused as error:
        print(f"\nStopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. Run it again to go on where it stopped.", file=sys.stderr)
        return 130
    say("Ready. Tell the app where the code is:")
    print(f"  export COSYVOICE_HOME={folder}")
    return 0


def code(folder: Path) -> None:
    """The checkout at COMMIT with its submodule."""
    if not shutil.which("git"):
        raise Refused("git is needed to fetch the code. On Debian and Ubuntu: apt-get install git")
    if head(folder) == COMMIT and (folder / SUBMODULE / "matcha").is_dir():
        say(f"The code is in {folder}")
        return
    if folder.exists() and head(folder) is None and any(folder.iterdir()):
        raise Refused(f"{folder} exists and is no checkout of CosyVoice: name another folder")
    reachable()
    say(f"Fetching the code into {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    steps = [
        ("init", "--quiet"),
        ("fetch", "--quiet", "--depth", "1", SOURCE, COMMIT),
        ("checkout", "--quiet", "--force", COMMIT),
        ("submodule", "update", "--quiet", "--init", "--recursive", "--depth", "1", SUBMODULE),
    ]
    for step in steps:
        if git(*step, folder=folder).returncode != 0:
            raise Refused(f"`git {' '.join(step)}` failed; its own words are above. Run `make cosyvoice` again.")
    if not (folder / SUBMODULE / "matcha").is_dir():
        raise Refused(f"the submodule {SUBMODULE} did not arrive. Run `make cosyvoice` again.")


def head(folder: Path) -> str | None:
    """The commit of a checkout that is `folder` itself; None where it is none."""
    if not (folder / ".git").exists():
        return None
    done = git("rev-parse", "HEAD", folder=folder, quiet=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def reachable() -> None:
    """Ask the server for one line, so that a machine without a network is told at once."""
    try:
        done = git("ls-remote", "--quiet", SOURCE, "HEAD", quiet=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        done = None
    if done is None or done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1] if done else f"no answer in {PATIENCE_S} s"
        raise Refused(
            f"the code cannot be fetched from {SOURCE}: {last}\n"
            "Connect to the network, or name a mirror (COSYVOICE_SOURCE=URL make cosyvoice), or set COSYVOICE_HOME "
            "to a checkout you have."
        )


def git(
    *args: str, folder: Path | None = None, quiet: bool = False, timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"GIT_TERMINAL_PROMPT": "0"}
    return subprocess.run(
        ["git", *args], cwd=folder or ROOT, env=env, text=True, capture_output=quiet, timeout=timeout, check=False
    )


def packages() -> None:
    """What its code imports when it speaks: the pins of the engine's row."""
    say("Installing the packages that it imports")
    ask = "from pipeline.engines.registry import Kind, row; print(*row(Kind.TTS, 'cosyvoice3').packages)"
    asked = subprocess.run([sys.executable, "-c", ask], cwd=ROOT, text=True, capture_output=True, check=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "-c", "constraints.txt", *asked.stdout.split()], cwd=ROOT, check=False)
    if done.returncode != 0:
        raise Refused("pip could not install them; its own words are above. Run `make cosyvoice` again.")


def weights() -> None:
    say("Fetching the weights (about 5.5 GB)")
    done = subprocess.run([sys.executable, "-m", "pipeline", "download", MODEL], cwd=ROOT, check=False)
    if done.returncode != 0:
        raise Refused(f"the weights are not here; the reason is above. Later: python -m pipeline download {MODEL}")


def say(text: str) -> None:
    print(f"[cosyvoice] {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
