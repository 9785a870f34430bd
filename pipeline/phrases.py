"""Cut a stream of text into phrases to speak: the first one as short as it may be, later ones by the sentence.

A cut never falls inside a number (1.23, 12,345), an abbreviation (Dr. Wu, 9 a.m.), an address (help@acme.com) or a
word. The phrases put together again are the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SENTENCE_MARKS = ".!?。！？…\n"
CLAUSE_MARKS = ",;:，；：—"
WIDE_MARKS = "。！？…，；：—\n"  # need no space after them
CLOSERS = "\"'”’)]」』）】"

ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof sr jr st ave vs etc inc ltd co corp dept est approx tel ext e.g i.e a.m p.m u.s u.k".split()
)
# A phrase that stops on one of these, or on a number whose unit may follow, sounds torn off: it takes one word more.
LEANING = frozenset(
    "a an the to of in on at by for from with and or but your our my his her its their this that"
    " is are be will can".split()
)
FIRST_CLAUSE_CHARS = 2  # characters that a first phrase before a comma has at least
LATER_CLAUSE_WORDS = 8  # a later phrase is cut at a comma only when it has become this long
LONGEST_WORDS = 30  # ... and anywhere between words at this length
CJK_PER_WORD = 2  # Chinese characters that count as one word

_CJK = re.compile(r"[㐀-鿿豈-﫿぀-ヿ가-힯]")
_WORD = re.compile(r"[^\W_㐀-鿿]+(?:['’.\-@,:/][^\W_㐀-鿿]+)*", re.UNICODE)
_SPOKEN = re.compile(r"[^\W_]", re.UNICODE)


def speakable(text: str) -> bool:
    """Whether there is anything in it a voice can say: a letter, a digit or a character."""
    return bool(_SPOKEN.search(text))


def word_count(text: str) -> float:
    """Words, where two Chinese characters are about one."""
    return len(_WORD.findall(_CJK.sub(" ", text))) + len(_CJK.findall(text)) / CJK_PER_WORD


def sentence_count(text: str) -> int:
    """Finished sentences in `text`."""
    return sum(_ends_sentence(text, i, at_end=True) for i, c in enumerate(text) if c in SENTENCE_MARKS and c != "\n")


@dataclass(slots=True)
class Splitter:
    """Feed it pieces of a reply as they come; it gives back phrases as soon as they may be spoken."""

    first_words: int = 4  # words after which the first phrase need not wait for punctuation
    shortest: int = 1  # characters; less is joined with what follows, for a voice that chokes on it
    _held: str = ""
    _given: int = 0

    def feed(self, piece: str) -> list[str]:
        """The phrases that `piece` completed, in order."""
        self._held += piece
        phrases = []
        while cut := self._cut(at_end=False):
            phrases.append(self._take(cut))
        return [p for p in phrases if p]

    def flush(self) -> list[str]:
        """What is left when the reply is over."""
        phrases = []
        while cut := self._cut(at_end=True):
            phrases.append(self._take(cut))
        phrases.append(self._take(len(self._held)))
        return [p for p in phrases if p]

    def _take(self, cut: int) -> str:
        phrase, self._held = self._held[:cut].strip(), self._held[cut:]
        self._given += bool(phrase)
        return phrase

    def _cut(self, at_end: bool) -> int:
        """Where the next phrase ends in what is held, or 0 while that is not known."""
        text = self._held
        if not text.strip():
            return 0
        for i, char in enumerate(text):
            if len(text[: i + 1].strip()) < self.shortest:
                continue
            if char in SENTENCE_MARKS and _ends_sentence(text, i, at_end):
                return _past_closers(text, i + 1)
            if char in CLAUSE_MARKS and _ends_clause(text, i) and self._clause_will_do(text[: i + 1]):
                return i + 1
        return self._cut_by_length(text)

    def _clause_will_do(self, clause: str) -> bool:
        if not self._given:
            return len("".join(_SPOKEN.findall(clause))) >= FIRST_CLAUSE_CHARS
        return word_count(clause) >= LATER_CLAUSE_WORDS

    def _cut_by_length(self, text: str) -> int:
        limit = LONGEST_WORDS if self._given else self.first_words
        if word_count(text) < limit:
            return 0
        for match in re.finditer(r"\s+(?=\S)", text):
            head = text[: match.start()]
            last = head.split()[-1].lower() if head.split() else ""
            whole = last not in LEANING and not last[-1:].isdigit() and not _abbreviated(head)
            if whole and word_count(head) >= limit:
                return match.start()
        return 0


def _ends_sentence(text: str, i: int, at_end: bool) -> bool:
    char, rest = text[i], text[i + 1 :]
    if char in WIDE_MARKS:
        return True
    if not rest:
        return at_end
    if rest[0] in SENTENCE_MARKS:
        return False  # "..." and "?!" end at their last mark
    after = rest.lstrip(CLOSERS)
    if after and not after[0].isspace() and not _CJK.match(after[0]):
        return False  # 1.23, help@acme.com
    return not (char == "." and _abbreviated(text[: i + 1]))


def _abbreviated(head: str) -> bool:
    """Whether `head` ends in an abbreviation's full stop."""
    if not head.endswith("."):
        return False
    match = re.search(r"([A-Za-z][A-Za-z.]*)\.$", head)
    if match is None:
        return False
    word = match[1]
    return word.lower() in ABBREVIATIONS or (len(word) == 1 and word.isupper() and word != "I")


def _ends_clause(text: str, i: int) -> bool:
    if text[i] in WIDE_MARKS:
        return True
    return i + 1 < len(text) and text[i + 1].isspace()  # 12,345 and 10:30 have no space


def _past_closers(text: str, end: int) -> int:
    while end < len(text) and text[end] in CLOSERS:
        end += 1
    return end
