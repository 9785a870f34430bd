"""How many digits of a number that a scenario expects were said. Pure.

A caller who spells a number pauses within it, and neither melody nor grammar tells such a pause from the end. Its
length does: an order number of five digits is complete at the fifth.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.meaning import words

_UNITS = "zero oh one two three four five six seven eight nine".split()
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_TIMES = {"double": 2, "triple": 3}
_CJK = "零〇一二三四五六七八九幺两"
_NUMERAL = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class Expected:
    """A number that callers give, and how long it is."""

    cues: tuple[str, ...]  # words that announce it: "order number", "订单号"
    digits: int


def missing(said: str, expected: Sequence[Expected]) -> int | None:
    """Digits still to come of the number announced last; 0 when it is complete, None when none was announced."""
    heard = words(said)
    found = [(end, e) for e in expected for cue in e.cues if (end := _after(heard, words(cue))) is not None]
    if not found:
        return None
    end, number = max(found, key=lambda f: f[0])
    return max(number.digits - spoken_digits(heard[end:]), 0)


def spoken_digits(said: Sequence[str]) -> int:
    """Digits that these words stand for: "four five", "45", "forty five", "double four" and 四五 are two each."""
    count, times = 0, 1
    for i, word in enumerate(said):
        following = said[i + 1] if i + 1 < len(said) else ""
        if word in _TIMES:
            times = _TIMES[word]
            continue
        if word in _UNITS or word in _CJK:
            count += times
        elif word in _TEENS:
            count += 2
        elif word in _TENS:
            count += 1 if following in _UNITS else 2
        elif _NUMERAL.fullmatch(word):
            count += len(word)
        times = 1
    return count


def _after(said: Sequence[str], cue: Sequence[str]) -> int | None:
    """The index after the last place where `cue` stands in `said`."""
    n = len(cue)
    places = [i + n for i in range(len(said) - n + 1) if list(said[i : i + n]) == list(cue)]
    return places[-1] if places else None
