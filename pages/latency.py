"""Every turn of this visit: waterfalls, reasons, spread, trend and all figures; then the trade as a sweep found it."""

from pipeline.ui import frame, latency, trades

lang = frame.language()
latency.page(frame.this_visit(), lang)
trades.section(lang, frame.apply)
