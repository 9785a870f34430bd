"""Every engine by stage: what it needs, whether that is here, and how to get it."""

from pipeline.ui import controls, engines, frame

lang = frame.language()
frame.framed()
engines.page(controls.current(), lang, frame.reconnect)
