"""Every turn of this visit: waterfalls, the spread of each stage, the trend, all figures to look at and to keep."""

from pipeline.ui import frame, latency

latency.page(frame.this_visit(), frame.language())
