"""The smallest app with a call in it; beeps.py serves it. Not part of what a visitor sees."""

from __future__ import annotations

import os
from pathlib import Path

from pipeline.browser.beep_session import LOG_VARIABLE, SET_VARIABLE, BeepSession
from pipeline.settings import parse_set
from pipeline.transport.install import freeze_garbage
from pipeline.ui.webrtc import call


def main() -> None:
    settings = parse_set(os.environ.get(SET_VARIABLE, "").split())
    if settings.transport == "tuned":
        freeze_garbage()
    call(lambda: BeepSession(Path(os.environ[LOG_VARIABLE])), settings, on_ended=BeepSession.close)


main()
