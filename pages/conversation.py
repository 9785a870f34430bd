"""Speak and be answered: what is said, where the milliseconds went, and a sample caller for who has no microphone."""

from pipeline.ui import controls, frame, live, sample

lang = frame.language()
visit = frame.this_visit()
live.conversation(visit, lang)
sample.section(visit, controls.current(), lang)
live.explain_figures(lang)
