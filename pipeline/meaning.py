"""Whether two transcripts of one utterance ask for the same reply. Pure.

A draft is begun on words that a recogniser may still revise: case and punctuation come and go, a filler is added, a
last word turns up. What does not change the reply must not cost the draft.
"""

from __future__ import annotations

import re
import unicodedata

END_MARKS = ".?!。？！…,;:，；：、'\"’” "  # what an ASR puts after the last word says little: it guesses
# Said while looking for words, or out of courtesy: the question is the same without them.
_TRAILING = frozenset(
    "um uh er erm hmm mm please thanks so then okay ok now right 嗯 呃 啊 呢 吧 呀 那个 请 谢谢".split()
)
# A word that turns the meaning of those before it round: with one more of them nothing is certain.
_TURNING = re.compile(
    r"\b(?:not|no|never|none|without|except|instead|but|or|nothing|cancel|don't|doesn't|didn't|can't|won't|isn't|aren't)\b"
    r"|[不没别非无]|取消|但是|可是|或者|还是|除了"
)
_WORDS = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+(?:'[^\W_]+)*")


def words(text: str) -> list[str]:
    """The words as they sound: no case, no punctuation; of Chinese, the characters."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return _WORDS.findall(folded)


def alike(a: str, b: str) -> bool:
    """Whether only case, punctuation or a trailing filler tells them apart."""
    return _core(a) == _core(b)


def _core(text: str) -> list[str]:
    said = words(text)
    while said and (said[-1] in _TRAILING or "".join(said[-2:]) in _TRAILING):
        del said[-2 if "".join(said[-2:]) in _TRAILING and said[-1] not in _TRAILING else -1 :]
    return said


def turned(before: str, after: str) -> bool:
    """Whether `after` holds a word that turns the meaning round and `before` does not: "not", "without", "不"."""
    return len(_TURNING.findall(" ".join(words(after)))) > len(_TURNING.findall(" ".join(words(before))))
