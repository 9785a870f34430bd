"""Inbound packets in order, at once.

aiortc 1.16 gives audio a JitterBuffer(capacity=16, prefetch=4): it always holds four packets (80 ms), and after one
lost packet it stays full for good (280 ms, aiortc issue 543). One Opus packet is one frame, so nothing has to be held
except while a packet is missing, and then not for long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from aiortc.jitterbuffer import JitterBuffer as StockJitterBuffer
from aiortc.jitterbuffer import JitterFrame

T = TypeVar("T")

SEQUENCES = 1 << 16  # RTP sequence numbers wrap here
RESTART_BEHIND = 100  # so far behind it is a new stream, not a late packet; aiortc's own MAX_MISORDER


@dataclass(slots=True)
class Counts:
    """What a stream went through, in packets."""

    lost: int = 0  # never came, or came after its hole was skipped
    late: int = 0  # came after its hole was skipped, or was released before: not released
    duplicates: int = 0  # came again while the first was still held


class InOrder(Generic[T]):
    """Releases items in the order of their 16-bit sequence numbers.

    An item in order is released with everything held behind it. A hole is waited for until `patience` later items are
    held, then skipped. Pure: no clock, no thread.
    """

    def __init__(self, patience: int = 2) -> None:
        if patience < 1:
            raise ValueError("patience is at least one packet")
        self.counts = Counts()
        self._patience = patience
        self._next: int | None = None
        self._held: dict[int, T] = {}

    def add(self, sequence: int, item: T) -> list[T]:
        """What may be released now, oldest first; often one item, sometimes none."""
        if self._next is None:
            self._next = sequence
        if self._ahead(sequence) >= SEQUENCES // 2:
            if SEQUENCES - self._ahead(sequence) < RESTART_BEHIND:
                self.counts.late += 1
                return []
            self._held.clear()
            self._next = sequence
        if sequence in self._held:
            self.counts.duplicates += 1
            return []
        self._held[sequence] = item
        if self._next not in self._held and len(self._held) >= self._patience:
            self._skip()
        return self._drain()

    def _ahead(self, sequence: int) -> int:
        """Packets from the next one due to `sequence`, modulo the wrap-around."""
        assert self._next is not None
        return (sequence - self._next) % SEQUENCES

    def _skip(self) -> None:
        oldest = min(self._held, key=self._ahead)
        self.counts.lost += self._ahead(oldest)
        self._next = oldest

    def _drain(self) -> list[T]:
        out: list[T] = []
        while self._next in self._held:
            out.append(self._held.pop(self._next))
            self._next = (self._next + 1) % SEQUENCES
        return out


class FrameRun(JitterFrame):
    """A frame for the decoder, and those that became ready with it.

    aiortc takes one frame a packet from its buffer; the tuned decoder (codecs.py) takes the whole run.
    """

    def __init__(self, frames: list[JitterFrame]) -> None:
        super().__init__(data=frames[0].data, timestamp=frames[0].timestamp)
        self.raw_timestamp = frames[0].timestamp  # aiortc maps `timestamp` to its own origin later
        self.following = tuple(frames[1:])

    def frames(self) -> list[JitterFrame]:
        """All frames of the run with mapped timestamps (48 kHz ticks)."""
        shift = self.timestamp - self.raw_timestamp
        return [self, *(JitterFrame(data=f.data, timestamp=f.timestamp + shift) for f in self.following)]


class AudioJitterBuffer:
    """InOrder in the shape of aiortc's JitterBuffer: `add(packet)` -> (picture loss flag, frame or None)."""

    capacity = 16  # what aiortc's has; nothing here depends on it

    def __init__(self) -> None:
        self._order: InOrder[JitterFrame] = InOrder()

    @property
    def counts(self) -> Counts:
        return self._order.counts

    def add(self, packet: Any) -> tuple[bool, JitterFrame | None]:
        frame = JitterFrame(data=packet._data, timestamp=packet.timestamp)
        ready = self._order.add(packet.sequence_number, frame)
        return False, FrameRun(ready) if ready else None


def jitter_buffer(capacity: int, prefetch: int = 0, is_video: bool = False) -> Any:
    """Stands in for aiortc's JitterBuffer constructor. Video keeps the library's own."""
    return StockJitterBuffer(capacity, prefetch, True) if is_video else AudioJitterBuffer()
