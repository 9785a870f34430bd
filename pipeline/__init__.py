"""Turnaround: real-time voice dialogue whose every millisecond is on screen."""
