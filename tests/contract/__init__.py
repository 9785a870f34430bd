"""One contract for every engine in the registry: a new row is tested here without a line added.

What a port promises: ranges and shapes, no surprise from bad audio or odd text, coded errors only, cancellation that
acts, visitors who cannot touch each other, memory that stays flat, no thread left behind.
"""
