"""Which facts fit a question: BM25 over word stems (Chinese: characters) and pairs of them. Under a millisecond."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

_CJK = re.compile(r"[\u3400-\u9fff]+")
_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
# Words that say nothing about the topic: with them in, "can you ..." would outweigh "... invoice".
_STOP_EN = frozenset(
    "a an the and or but of to in on at for with from by it its it's this that these those i i'm i'd i've me my we our"
    " you your he she they is are am was were be been do does did have has had would could should can will just um uh"
    " well so please there if whether as any some what who how like get got".split()
)
_STOP_ZH = frozenset("的了吗呢吧啊呀请您你我们就是个")


def terms(text: str, keyword: bool = False) -> list[str]:
    """What of `text` is compared: English word stems or Chinese characters, and neighbouring pairs of them.

    A Chinese keyword of several characters is found by its pairs only: one shared character means little.
    """
    lowered = text.lower().replace("’", "'")
    stems = _stem([w for w in _WORD.findall(lowered) if w not in _STOP_EN])
    found = stems + [f"{a} {b}" for a, b in pairwise(stems)]
    for run in _CJK.findall(lowered):
        kept = [c for c in run if c not in _STOP_ZH]
        pairs = [a + b for a, b in pairwise(kept)]
        found += pairs if keyword and pairs else kept + pairs
    return found


def _stem(words: Sequence[str]) -> list[str]:
    import snowballstemmer  # type: ignore[import-untyped]  # here, since pages import this module at start

    return list(snowballstemmer.stemmer("english").stemWords(list(words)))


class Recall:
    """An index over short texts. Immutable after it is built, so threads may share it."""

    def __init__(self, texts: Sequence[str], keywords: Sequence[Sequence[str]]) -> None:
        from rank_bm25 import BM25Plus

        # With keywords a text is found by them alone: its own "today" or "email" is seldom what it is about.
        documents = [
            [w for k in (ks or (t,)) for w in terms(k, keyword=True)] for t, ks in zip(texts, keywords, strict=True)
        ]
        self._index = BM25Plus(documents) if documents else None
        self._sets = [frozenset(d) for d in documents]

    def best(self, question: str, limit: int = 1) -> list[int]:
        """Indices of at most `limit` texts that share a term with the question, the best first. [] when none fits."""
        asked = terms(question)
        if self._index is None or not asked:
            return []
        scores = self._index.get_scores(asked)
        order = sorted(range(len(scores)), key=lambda i: -scores[i])
        return [i for i in order if self._sets[i] & set(asked)][:limit]
