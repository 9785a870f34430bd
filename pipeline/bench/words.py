"""Word errors of a transcript, counted after what does not change the meaning has been made equal.

Case, punctuation and the way a number is written are not errors of recognition: "$50", "fifty dollars" and
"Fifty dollars." are the same words here. English is counted in words, Chinese in characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

_UNITS = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen".split()
    )
}
_TENS = {word: 10 * n for n, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)}
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000}

_ZH_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_ZH_SCALES = {"十": 10, "百": 100, "千": 1_000}
_ZH_NUMBER = re.compile("[零〇一二两三四五六七八九十百千万]+")

_MONEY_CENTS = re.compile(r"\$\s*(\d[\d,]*)\.(\d\d)\b")
_MONEY = re.compile(r"\$\s*(\d[\d,]*)")
_HYPHEN = re.compile(r"(?<=\w)-(?=\w)")
_WORD = re.compile(r"\d+|[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Errors:
    """Edits (insertions, deletions, substitutions) against the length of the reference, in words or characters."""

    edits: int
    length: int

    @property
    def rate(self) -> float:
        return self.edits / self.length if self.length else float(bool(self.edits))


def errors(reference: str, heard: str, lang: str = "en") -> Errors:
    """How far `heard` is from `reference`. `lang` "zh" counts characters, anything else words."""
    wanted, got = tokens(reference, lang), tokens(heard, lang)
    if not wanted:
        return Errors(len(got), 0)
    import jiwer

    out = jiwer.process_words(" ".join(wanted), " ".join(got))
    return Errors(out.substitutions + out.deletions + out.insertions, len(wanted))


def pooled(parts: Iterable[Errors]) -> float | None:
    """The rate over all texts together: edits by length, so that a short answer weighs no more than its words."""
    edits = length = 0
    for part in parts:
        edits, length = edits + part.edits, length + part.length
    return edits / length if length else None


def tokens(text: str, lang: str = "en") -> list[str]:
    """What is compared: words (English) or characters (Chinese), numbers as single digits.

    A number is split into digits because an order number may be read out, and written, either way.
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    if lang == "zh":
        return list("".join(_WORD.findall(_ZH_NUMBER.sub(lambda m: _zh_number(m[0]), text))))
    flat: list[str] = []
    for word in number_words(text):
        flat.extend(word if word.isdigit() else [word])
    return flat


def number_words(text: str) -> list[str]:
    """English words in lower case without punctuation, every number in digits: "Nine to twenty-five" -> 9 to 25."""
    text = _MONEY_CENTS.sub(r"\1 dollars and \2 cents", text.casefold())
    text = _MONEY.sub(r"\1 dollars", text).replace("%", " percent ")
    text = _HYPHEN.sub(" ", re.sub(r"(?<=\d),(?=\d{3})", "", text)).replace("'", "").replace("’", "")
    return _numbered(_WORD.findall(text))


def _numbered(words: list[str]) -> list[str]:
    """With each run of number words replaced by its digits."""
    out: list[str] = []
    at = 0
    while at < len(words):
        value, used = _read_number(words[at:])
        out.append(words[at] if value is None else str(value))
        at += used
    return out


def _read_number(words: list[str]) -> tuple[int | None, int]:
    """The number `words` begins with and how many words it takes; (None, 1) when it begins with none.

    "four five" is two numbers, "twenty five" and "one hundred and twenty three" are one each.
    """
    total = group = used = 0
    room = None  # what may still be added to `group`: below 10 after "twenty", below 100 after "hundred"
    while used < len(words):
        word = words[used]
        if word == "and" and room in (100, 1_000) and used + 1 < len(words) and words[used + 1] in _UNITS | _TENS:
            used += 1
            continue
        value = _UNITS.get(word, _TENS.get(word))
        if value is not None:
            if room is not None and (value >= room or value == 0):
                break
            group, room = group + value, 10 if word in _TENS else 0
        elif word in _SCALES and group and (word != "hundred" or group < 100):
            if word == "hundred":
                group, room = group * 100, 100
            else:
                total, group, room = total + group * _SCALES[word], 0, 1_000
        else:
            break
        used += 1
    return (None, 1) if room is None else (total + group, used)


def _zh_number(text: str) -> str:
    """Chinese numerals in digits: 三十 -> 30, 四五七 -> 457 (read out digit by digit), 两千零五 -> 2005."""
    if not any(c in _ZH_SCALES or c == "万" for c in text):
        return "".join(str(_ZH_DIGITS[c]) for c in text)
    total = group = digit = 0
    for c in text:
        if c in _ZH_DIGITS:
            digit = _ZH_DIGITS[c]
        elif c == "万":
            total, group, digit = (total + group + digit) * 10_000, 0, 0
        else:
            group, digit = group + (digit or 1) * _ZH_SCALES[c], 0
    return str(total + group + digit)
