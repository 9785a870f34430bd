"""What the rules for English and for Chinese figures share: how a rule looks, numbers that name a thing instead of
counting one, and their reading digit by digit.

The rules stand in figures_en.py and figures_zh.py. They say what the library behind them (spoken.py) reads wrongly or
not at all, and leave it digits to read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

Match: TypeAlias = re.Match[str]
Instead: TypeAlias = str | Callable[[Match], str]
Rules: TypeAlias = tuple[tuple[re.Pattern[str], Instead], ...]  # in order: a later one sees what an earlier one made

# How numbers are grouped when they are said, by their length. Others go in threes.
_GROUPS = {7: (3, 4), 8: (4, 4), 10: (3, 3, 4), 11: (3, 4, 4), 12: (4, 4, 4), 16: (4, 4, 4, 4)}
_SHORTEST_IN_GROUPS = 7

# Patterns of numbers that name a thing in either language.
INTERNATIONAL = r"(?<!\w)\+(?P<country>\d{1,3})[ \-.]?(?P<run>(?:\(?\d{2,4}\)?[ \-.]?){1,4}\d{2,8})(?!\d)"
MOBILE = r"(?<![\d.,+])(?P<run>1[3-9]\d(?:\d{8}|[ -]\d{4}[ -]\d{4}))(?!\d|[.,]\d)"
LANDLINE = r"(?<![\d.,])(?P<run>\(?0\d{2,3}\)?[ -]?\d{7,8}|[48]00[ -]?\d{3}[ -]?\d{4})(?!\d|[.,]\d)"
CODE = (
    r"(?<![\w.])(?P<run>(?!(?:USD|CNY|RMB|EUR|GBP|HKD|JPY|COVID)-?\d)[A-Z]{1,4}-?\d{3,}(?:-\d+)*)"
    r"(?![A-Za-z\d%℃°]|[.,]\d)"
)
LEADING_ZERO = r"(?<![\d.,:/-])(?P<run>0\d{2,})(?![\d:/%]|[.,]\d)"


def rules(*table: tuple[str, Instead]) -> Rules:
    """Patterns ignore case where they begin with (?i)."""
    return tuple((re.compile(pattern), instead) for pattern, instead in table)


def apply(table: Rules, text: str) -> str:
    for pattern, instead in table:
        text = pattern.sub(instead, text)
    return text


def one_by_one(run: str, digits: Mapping[str, str], within: str, between: str) -> str:
    """`run` with each digit a word, in the groups somebody reading aloud would make; its letters stay."""
    return between.join(within.join(digits.get(s, s) for s in re.findall(r"\d|[^\W\d]+", g)) for g in _groups(run))


def _groups(run: str) -> list[str]:
    """As it was written where it was written in groups, else as such numbers usually are."""
    written = re.findall(r"\d+|[^\W\d_]+", run)
    if any(not part.isdigit() for part in written):
        return ["-".join(written)]
    if len(written) != 1 or len(written[0]) < _SHORTEST_IN_GROUPS:
        return written
    number, groups = written[0], list[str]()
    for size in _GROUPS.get(len(number), (3,) * -(-len(number) // 3)):
        groups.append(number[:size])
        number = number[size:]
    return groups
