"""What stands in a reply but is not said: markdown, emoji, tags, stage directions. Only the voice is given the rest;
the page shows the reply as it was written.
"""

from __future__ import annotations

import re
import unicodedata

# A bracket is a stage direction only when all of it reads like one: what is in other brackets is said.
_ACTS = (
    "smil(?:es|ing) laugh(?:s|ing) chuckl(?:es|ing) giggl(?:es|ing) sigh(?:s|ing) nod(?:s|ding) paus(?:es|ing) "
    "cough(?:s|ing) gasp(?:s|ing) whisper(?:s|ing) wink(?:s|ing) grin(?:s|ning) frown(?:s|ing) shrug(?:s|ging) "
    "sniff(?:s|ing) sob(?:s|bing) cries crying inhal(?:es|ing) exhal(?:es|ing) breath(?:es|ing) yawn(?:s|ing) "
    "hum(?:s|ming) clap(?:s|ping) bow(?:s|ing) wav(?:es|ing) blush(?:es|ing) clear(?:s|ing)\\sthroat"
).split()
_NOUNS = "pause laughter laugh sigh silence beat breath cough applause music smile nod chuckle giggle gasp".split()
_ADVERB = r"(?:[a-z]+ly)"
_STAGE_EN = re.compile(
    rf"(?:{_ADVERB}[,\s]+)?(?:{'|'.join(_ACTS)})(?:[,\s]+[a-z']+){{0,5}}"
    rf"|(?:an?\s+)?(?:(?:short|long|brief|light|soft|small|quick|deep)\s+)?(?:{'|'.join(_NOUNS)})"
    r"|(?:softly|warmly|cheerfully|gently|excitedly|quietly|happily|sadly|angrily|nervously|politely)"
    r"|(?:in|with)\s+an?\s+(?:[a-z]+\s+){1,2}(?:tone|voice|smile)(?:\s+of\s+voice)?",
    re.IGNORECASE,
)
_STAGE_ZH = re.compile(
    r"(?:[一-鿿]{1,4}地)?(?:轻轻|轻|微微|微|大|苦|偷|坏|憨|哈哈|呵呵|嘿嘿|深深|短暂|稍作?|长|叹)?"
    r"(?:笑|叹气|叹息|叹|点头|摇头|停顿|沉默|咳嗽|鼓掌|眨眼|挥手|鞠躬|清嗓子?|深呼吸|吸气|呼气|哽咽|抽泣|哭泣|哭|耸肩|皱眉)"
    r"(?:着|了)?(?:一?[下声口气会笑])?儿?"
    r"|(?:用|以)?[一-鿿]{1,6}的?(?:语气|口吻|语调)(?:地?说)?"
    r"|(?:轻声|低声|小声|柔声|大声|温柔|热情|开心|亲切|耐心)(?:地|说|地说)?"
)
_BRACKETED = re.compile(
    r"\(([^()]{1,48})\)|\[([^\[\]]{1,48})\]|（([^（）]{1,24})）|【([^【】]{1,24})】|\*([^*\n]{1,48})\*"
)

_MARKDOWN: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)"), r"\1"),  # a link or an image: its words
    (re.compile(r"<\|[^|<>]{0,40}\|>|</?[A-Za-z][^<>]{0,80}>"), " "),  # tags of HTML, of speech markup, of a model
    (re.compile(r"^\s{0,3}(?:#{1,6}\s+|>\s?|[-*+•·]\s+)", re.M), ""),  # heading, quotation, list
    (re.compile(r"^\s*(?:[-*_]\s?){3,}$", re.M), ""),  # a rule across the page
    (re.compile(r"^\s*```.*$", re.M), ""),
    (re.compile(r"https?://(?:www\.)?([\w.-]+\w)(?:[/?#][\w./?#%&=~+:-]*\w/?)?"), r"\1"),  # of an address only the name
    (re.compile(r"(?<=\d)\s?\*\s?(?=\d)"), "×"),
    (re.compile("[\ufe00-\ufe0f]"), ""),  # how a picture is to be drawn
    (re.compile(r"\*+|~~+|`+"), ""),
    (re.compile(r"(?<![^\W_])_+(?=\w)|(?<=\w)_+(?![^\W_])"), ""),
    (re.compile(r"_+"), " "),
    (re.compile(r"\s*\|\s*"), ", "),
    (re.compile(r"(?<!\S)[:;=]['’]?-?[()]+(?!\S)"), ""),  # :-)
)
_KEPT = frozenset("°℃℉№©®™")  # signs among the pictures that somebody may read
_PICTURES = frozenset({"So", "Sk", "Cs", "Co", "Cn", "Cf", "Cc", "Me"})  # with their joiners and skin tones
_WIDE = re.compile(r"[０-９Ａ-Ｚａ-ｚ％＄￥＋－＃＠＆＝／＊～①-⑳㍱-㏿½¼¾²³№℃℉⁄]")
HOST = r"\.(?:com|org|net|edu|gov|cn|hk|io|ai|app|uk)\b"  # what makes two words a name on the web
_ODD = re.compile(rf"[^\w\s.,!?;'’\"“”…，。！？；：、—-]|[\d_０-９½¼¾²³①-⑳]|\w{HOST}")


def plain(text: str) -> bool:
    """Whether it is nothing but words and ordinary marks: then it is said as it stands."""
    return _ODD.search(text) is None


def said(text: str) -> str:
    """`text` without what is not said, full-width letters and digits made ordinary ones."""
    if plain(text):
        return text
    text = _WIDE.sub(lambda m: unicodedata.normalize("NFKC", m[0]), text).replace("⁄", "/")
    text = _BRACKETED.sub(lambda m: "" if _is_stage(next(g for g in m.groups() if g is not None)) else m[0], text)
    for pattern, instead in _MARKDOWN:
        text = pattern.sub(instead, text)
    text = "".join(c for c in text if c in _KEPT or c == "\n" or unicodedata.category(c) not in _PICTURES)
    return _spaced(text)


def _is_stage(content: str) -> bool:
    content = content.strip(" .!…。！~*")
    return bool(_STAGE_EN.fullmatch(content) or _STAGE_ZH.fullmatch(content))


def _spaced(text: str) -> str:
    """One line, one space where there were several, none before a mark; a mark that lost its words goes too."""
    text = re.sub(r"(?<=\w)\s*\n\s*(?=\w)", ", ", text)
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r" (?=[,.!?;:，。！？；：])(?![.,]\d)", "", text)
    return re.sub(r"^[,;:，。；：、\s]+(?=\w)", "", text)
