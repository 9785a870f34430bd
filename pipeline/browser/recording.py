"""What one end of the page sounded like, and when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Pcm = npt.NDArray[np.int16]
Times = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Recording:
    """Consecutive blocks of one audio track, with the time of each on Python's monotonic clock."""

    pcm: Pcm  # shape (n,)
    rate: int  # Hz
    firsts: npt.NDArray[np.int64]  # shape (blocks,): index in pcm of each block's first sample
    times: Times  # shape (blocks,): seconds, when that sample was captured (microphone) or played (ear)

    @classmethod
    def of(cls, pcm: Pcm, rate: int, lengths: list[int], times: Times) -> Recording:
        firsts = np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64) if lengths else np.zeros(0, np.int64)
        return cls(pcm, rate, firsts, times)

    @property
    def seconds(self) -> float:
        return self.pcm.size / self.rate if self.rate else 0.0

    def time_of(self, sample: int) -> float:
        """When sample `sample` was captured or played (seconds): its block's time and its place in the block."""
        block = self._block(sample)
        return float(self.times[block] + (sample - self.firsts[block]) / self.rate)

    def sample_at(self, at: float) -> int:
        """The sample captured or played at `at` (seconds), or the nearest that was recorded; 0 to the size of pcm."""
        block = max(0, int(np.searchsorted(self.times, at, side="right")) - 1)
        end = self.firsts[block + 1] if block + 1 < self.firsts.size else self.pcm.size
        return int(np.clip(self.firsts[block] + round((at - self.times[block]) * self.rate), self.firsts[block], end))

    def onsets(self, threshold: float = 0.05, quiet_s: float = 0.3) -> list[int]:
        """Samples at which sound begins: above `threshold` (of full scale) after at least `quiet_s` below it."""
        loud = np.flatnonzero(np.abs(self.pcm.astype(np.int32)) > threshold * 32767)
        if loud.size == 0:
            return []
        begins = np.concatenate(([loud[0] > quiet_s * self.rate], np.diff(loud) > quiet_s * self.rate))
        return [int(i) for i in loud[begins]]

    def between(self, start: float, end: float) -> Pcm:
        """The samples of the blocks that begin from `start` to `end` (seconds on the clock)."""
        chosen = np.flatnonzero((self.times >= start) & (self.times < end))
        if chosen.size == 0:
            return np.zeros(0, np.int16)
        last = chosen[-1] + 1
        return self.pcm[self.firsts[chosen[0]] : self.firsts[last] if last < self.firsts.size else self.pcm.size]

    def _block(self, sample: int) -> int:
        if not 0 <= sample < self.pcm.size:
            raise IndexError(f"sample {sample} of {self.pcm.size}")
        return int(np.searchsorted(self.firsts, sample, side="right")) - 1


def first_sound(recording: Recording, after: float, threshold: float = 0.01, quiet_s: float = 0.3) -> float | None:
    """When the first sound that begins after `after` (seconds) was heard; None when none does."""
    heard = (recording.time_of(sample) for sample in recording.onsets(threshold, quiet_s))
    return next((at for at in heard if at > after), None)
