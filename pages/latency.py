"""Where the milliseconds of this visit went. The entry script has made the session ready."""

from pipeline.ui import frame, latency, trades

lang = frame.language()
latency.page(frame.this_visit(), lang)
trades.section(lang, frame.apply)
