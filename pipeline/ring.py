"""The capture ring: the last two seconds of the microphone, so that a turn can reach back before its detection."""

from __future__ import annotations

import numpy as np

from pipeline.ports import CAPTURE_RATE, Samples

RING_S = 2.0


class Ring:
    """A fixed float32 buffer at 16 kHz. One writer; positions count samples since the first one."""

    def __init__(self, seconds: float = RING_S) -> None:
        self._buffer = np.zeros(round(seconds * CAPTURE_RATE), np.float32)
        self.written = 0  # samples written so far: the position of the next one

    def write(self, samples: Samples) -> None:
        """Append shape (n,); of more than the ring holds, the last part stays."""
        size = len(self._buffer)
        kept = samples[-size:]
        start = (self.written + len(samples) - len(kept)) % size
        head = min(len(kept), size - start)
        self._buffer[start : start + head] = kept[:head]
        self._buffer[: len(kept) - head] = kept[head:]
        self.written += len(samples)

    def since(self, position: int) -> Samples:
        """A copy of the samples from `position` to now, shape (m,); what was overwritten is left out."""
        size = len(self._buffer)
        first = max(position, self.written - size, 0)
        count = max(self.written - first, 0)
        start = first % size
        head = min(count, size - start)
        return np.concatenate((self._buffer[start : start + head], self._buffer[: count - head]))


class Capture:
    """The audio of one utterance: one thread appends, others read what is there. Never reallocates."""

    def __init__(self, seconds: float) -> None:
        self._buffer = np.zeros(round(seconds * CAPTURE_RATE), np.float32)
        self.length = 0  # samples; moved on only after they are in place, so a reader needs no lock

    def append(self, samples: Samples) -> None:
        """Add shape (n,); what does not fit is left out (the utterance cap ends the turn about then)."""
        kept = samples[: len(self._buffer) - self.length]
        self._buffer[self.length : self.length + len(kept)] = kept
        self.length += len(kept)

    def between(self, start: int, end: int) -> Samples:
        """A view of samples start..end, shape (end - start,)."""
        return self._buffer[max(start, 0) : min(end, self.length)]
