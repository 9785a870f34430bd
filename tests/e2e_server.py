"""Stands in for Streamlit when the end-to-end tests serve app.py: says, when it gets SIGUSR1, which threads there are.

From outside a process the names of Python's threads cannot be seen (3.11 does not hand them to the system).
"""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

from streamlit.web import cli

VARIABLE = "TURNAROUND_E2E_THREADS"  # the file to write them to


def _tell(*_signal: object) -> None:
    target = Path(os.environ[VARIABLE])
    fresh = target.with_suffix(".new")
    fresh.write_text(json.dumps(sorted(t.name for t in threading.enumerate())))
    fresh.replace(target)  # so that nobody reads half of it


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _tell)
    cli.main(prog_name="streamlit")
