"""What drafting costs over a visit: drafts, hits, and what the dropped ones wasted. Changed under the floor's lock.

The wasted seconds are an estimate of CPU time: how long the language model and the voice were busy with a dropped
draft, counted as one core each. A model that computes on two cores costs more, one that waits for the other less.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from pipeline.turn import Tag

REMEMBERED = 16  # dropped drafts whose work may still be under way


@dataclass(slots=True)
class Ledger:
    drafts: int = 0
    drafts_dropped: int = 0
    hits: int = 0  # drafts the endpoint released
    wasted_tokens: int = 0
    wasted_s: float = 0.0
    _dropped: deque[Tag] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def dropped(self, tag: Tag, tokens: int, busy_s: float) -> None:
        """The draft made for `tag` is of no use any more."""
        self.drafts_dropped += 1
        self.wasted_tokens += tokens
        self.wasted_s += busy_s
        self._dropped.append(tag)

    def late(self, tag: Tag, seconds: float) -> bool:
        """Work for `tag` ended after it had lost the floor. Returns whether that was a dropped draft's."""
        if tag not in self._dropped:
            return False
        self.wasted_s += seconds
        return True
