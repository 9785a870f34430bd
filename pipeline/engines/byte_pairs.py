"""SmolLM2's words: text to token numbers as llama.cpp's "smollm" does it, and token numbers to bytes.

The pairs are merged by the tokenizers package (Apache-2.0), which is small and loads neither torch nor transformers.
"""

from __future__ import annotations

import codecs
from typing import Any

_CONTROL = 3  # llama.cpp's type of a token that is a mark, not text


class BytePairs:
    """Made from a GGUF's metadata. ImportError without tokenizers; KeyError or ValueError for another vocabulary."""

    def __init__(self, meta: dict[str, Any]) -> None:
        import tokenizers
        from tokenizers import models, pre_tokenizers

        if meta["tokenizer.ggml.pre"] != "smollm":
            raise ValueError(f"words are cut by {meta['tokenizer.ggml.pre']!r}, not as SmolLM2 does")
        words, kinds = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
        merges = [tuple(pair.split(" ")) for pair in meta["tokenizer.ggml.merges"]]
        self._words = tokenizers.Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, merges))
        self._words.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        self.marks = frozenset(i for i, kind in enumerate(kinds) if kind == _CONTROL)
        self._words.add_special_tokens([tokenizers.AddedToken(words[i], normalized=False) for i in sorted(self.marks)])
        letters = _letters()
        self.bytes = [b"" if i in self.marks else bytes(letters[c] for c in word) for i, word in enumerate(words)]
        self.names = words

    def ids(self, text: str) -> list[int]:
        """Token numbers; marks such as <|im_start|> in the text are the marks themselves."""
        return list(self._words.encode(text, add_special_tokens=False).ids)


def whole_characters() -> codecs.IncrementalDecoder:
    """Bytes in, whole characters out: an emoji is four tokens, and none of them is text by itself."""
    return codecs.getincrementaldecoder("utf-8")(errors="replace")


def _letters() -> dict[str, int]:
    """GPT-2's alphabet: printable bytes stand for themselves, the others for letters from U+0100 on."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(b): b for b in plain}
    return letters | {chr(0x100 + i): b for i, b in enumerate(b for b in range(256) if b not in plain)}
