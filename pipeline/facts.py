"""Whether a reply holds an expected fact: lenient on how it is written, strict on what it says.

"9 AM to 6 PM", "9-6" and "nine to six" are the same; so are "$50" and "fifty dollars", "30" and "thirty". The words of
the fact must stand in the reply next to each other and in order. What stands around them is not judged: "not fifty"
holds "fifty", so replies are also read by eye.
"""

from __future__ import annotations

import re
import unicodedata

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_VALUES = {w: n for n, w in enumerate(_SMALL)} | {w: 10 * n for n, w in enumerate(_TENS, 2)}
_CLOCK = re.compile(r"(?<=\d)(?::00)?\s*(?:a\.?m\b\.?|p\.?m\b\.?|o'clock)|(?<=\d):00\b|\bo'clock\b|\b[ap]\.?m\b\.?")
_RANGE = re.compile(r"(?<=\d)\s*-\s*(?=\d)")
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[a-z]+(?:'[a-z]+)?|[\u3400-\u9fff]")
_DASHES = str.maketrans({"–": "-", "—": "-", "−": "-", "’": "'"})


def holds(fact: str, reply: str) -> bool:
    """Whether `reply` says `fact`. An empty fact is held by nothing."""
    wanted, said = _tokens(fact), _tokens(reply)
    return bool(wanted) and any(said[i : i + len(wanted)] == wanted for i in range(len(said) - len(wanted) + 1))


def _tokens(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", text).translate(_DASHES).lower()
    plain = _RANGE.sub(" to ", _CLOCK.sub(" ", plain))
    return _numbers(_TOKEN.findall(plain))


def _numbers(words: list[str]) -> list[str]:
    """Number words as digits: ["twenty", "five"] is ["25"]."""
    out: list[str] = []
    tens = False
    for word in words:
        value = _VALUES.get(word)
        if value is None:
            out.append(word.replace(",", ""))
        elif tens and 0 < value < 10:
            out[-1] = str(int(out[-1]) + value)
        else:
            out.append(str(value))
        tens = value is not None and value >= 20
    return out
