"""Text for the ear: what a voice is given of a phrase. The page shows the phrase as it was written.

A phrase of plain words is returned as it is, and no library is loaded for it. Of any other, what is not said goes
(unsaid.py), then each piece has its figures read in its own language: rules first (figures_en.py, figures_zh.py), then
wetext, whose Chinese and English grammars are finite-state transducers (0.7 s to load, 1 ms for a number).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Literal, TypeAlias

from pipeline.figures import apply
from pipeline.figures_en import ENGLISH
from pipeline.figures_zh import CHINESE
from pipeline.phrases import speakable
from pipeline.unsaid import HOST, plain, said

Language: TypeAlias = Literal["en", "zh"]

_HAN = re.compile(r"[㐀-鿿豈-﫿]")
_OTHER = re.compile(r"[぀-ヿ가-힯]")  # kana and hangul: no rules here, the engine is left to read them
_WORD = re.compile(r"[^\W\d_㐀-鿿豈-﫿℃℉]+(?:['’][^\W\d_]+)?")
# What the grammars are for: figures, and signs that stand for words.
_TO_READ = re.compile(rf"[\d@%°$€£¥=+#&℃℉×‰]|[A-Za-z]{HOST}")
_CLAUSES = re.compile(r"(?<=[，。！？；：、…\n])")
_LATIN_RUN = re.compile(r"[A-Za-z][\x21-\x7e’]*(?: [\x21-\x7e’]+)*")
_HAN_RUN = re.compile(r"(?:\d[\d.,:]*)?[㐀-鿿豈-﫿，。！？；：、…]+(?:\d[\d.,:%]*[㐀-鿿豈-﫿，。！？；：、…]+)*")
_UNIT = re.compile(
    r"(?:HK|US|CN|A)\$|\b(?:USD|HKD|GBP|EUR|CNY|RMB|JPY)\b|\b[Nn][Oo]\.(?=\s?\d)"
    r"|(?<=[\d°])\s?[A-Za-z]{1,4}[23]?(?:/[a-z]+)?\b"
)
_ENGLISH_CLAUSE = 3  # Latin words in a row within Chinese from which figures among them are read in English
_LONG_LATIN = re.compile(r"([A-Za-z]{4,})")  # "5 stars" would be five seconds ("5 s") to the Chinese grammar
_DIGIT = {"en": "zero one two three four five six seven eight nine".split(), "zh": list("零一二三四五六七八九")}


def language(text: str, otherwise: Language = "en") -> Language:
    """What `text` is written in, by its letters; `otherwise` where it has none but those of a unit or a currency."""
    han, words = len(_HAN.findall(text)), len(_WORD.findall(_UNIT.sub("", text)))
    if not han:
        return "en" if words else otherwise
    return "en" if words > han / 2 + 1 else "zh"  # a name of three characters does not make a sentence Chinese


def spoken(text: str, lang: Language = "en", numbers: bool = True) -> str:
    """`text` as it is to be said; "" where there is nothing to say. Never raises.

    lang: of a text without letters. numbers: False for a voice that reads numbers by itself: the rules still decide
    which ones are read digit by digit, and no library is loaded.
    """
    if plain(text):
        return text if speakable(text) else ""
    rest = said(text)
    if not speakable(rest):
        return ""
    if not _OTHER.search(rest):
        rest = "".join(_read(piece, of, numbers) for piece, of in _pieces(rest, language(rest, lang)))
    return rest.strip()


def warm_up() -> None:
    """Load the grammars and use each once, so that the first phrase with a number does not pay for it."""
    spoken("5%")
    spoken("共5元")


def _pieces(text: str, main: Language) -> Iterator[tuple[str, Language]]:
    """`text` in pieces of one language: English clauses within Chinese, Chinese words within English."""
    at = 0
    for run in (_LATIN_RUN if main == "zh" else _HAN_RUN).finditer(text):
        if main == "zh" and len(_WORD.findall(run[0])) < _ENGLISH_CLAUSE:
            continue
        yield text[at : run.start()], main
        yield run[0], "en" if main == "zh" else "zh"
        at = run.end()
    yield text[at:], main


def _read(piece: str, lang: Language, numbers: bool) -> str:
    if not _TO_READ.search(piece):
        return piece
    if lang == "en":
        ruled = apply(ENGLISH, piece)
        return _by_grammar(ruled, "en") if numbers else ruled
    ruled = apply(CHINESE, piece)
    if not numbers:
        return ruled
    clauses = (part for clause in _CLAUSES.split(ruled) for part in _LONG_LATIN.split(clause))
    return "".join(_by_grammar(clause, "zh") for clause in clauses)


def _by_grammar(clause: str, lang: Language) -> str:
    """Read by the library; what it finds no way through in parts, and in the last resort digit by digit."""
    if not _TO_READ.search(clause):
        return clause
    head, core, tail = _edges(clause)
    read = _grammar(lang)(core) or _in_parts(core, lang)
    return head + re.sub(r"\d", lambda m: _digit(m[0], lang), read) + tail


def _in_parts(core: str, lang: Language) -> str:
    for pattern in (r"([.,!?;:]+$)", r"(\s+)", r"([^\w\s])"):
        parts = [part for part in re.split(pattern, core) if part]
        if len(parts) > 1:
            return "".join(_by_grammar(part, lang) for part in parts)
    return core


def _edges(text: str) -> tuple[str, str, str]:
    """The spaces around it apart: the library drops them."""
    core = text.strip()
    at = text.find(core)
    return text[:at], core, text[at + len(core) :]


def _digit(sign: str, lang: Language) -> str:
    word = _DIGIT[lang][int(sign)]
    return f" {word} " if lang == "en" else word


@cache
def _grammar(lang: Language) -> Callable[[str], str]:
    from wetext import Normalizer

    normalizer, lock = Normalizer(lang=lang, operator="tn"), threading.Lock()

    def read(text: str) -> str:
        """ "" where the grammar knows no way through `text`: "#5" and "10+" are in none."""
        try:
            with lock:  # visitors read at the same time
                # A quotation mark comes back as it stands in the library's own notation.
                return str(normalizer.normalize(text)).replace('\\"', '"')
        except Exception:  # most of them are failed assertions
            return ""

    return read
