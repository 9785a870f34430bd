"""P(finished): what the sound, the words and a few rules say together. Pure.

The sound is judged by a turn model; the words by the language model's own expectation that a sentence ends here, which
falls out of the prefill it does anyway. They are combined as evidence, in log-odds. Weights and rules were set by
hand with the bench's callers and forty sentences of the project's own voice in view: its figures are not held out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from pipeline.digits import Expected, missing

SOUND_WEIGHT = 0.5  # a turn model is as sure of a clause as of a sentence
TEXT_WEIGHT = 1.0
BIAS = 1.7  # a whole sentence may well be continued: P(end) of 0.15 is already a good sign
LOWEST, HIGHEST = -4.0, 3.0  # no single witness is believed beyond these log-odds
# A turn model's "no" says little: 40 ms into the silence smart-turn gives less than 0.45 to 6 of the callers' 34 ends
# and to 2 of their 10 inner pauses. It may delay an end, not forbid it.
SOUND_LOWEST = -0.6
TORN_DOUBT = 2.5  # "Can I pay with": no sentence ends so, whatever the models think of it
NUMBER_DOUBT = 0.7  # digits may go on
NUMBER_INCOMPLETE, NUMBER_COMPLETE = 0.0, 0.95  # of a number whose length is known
STATEMENT_DOUBT = 3.0  # who tells something often has more to tell; who asks has asked
ANSWER_BONUS = 2.0  # "yes" may be followed by anything, so no model expects an end there; mostly it is one
STATEMENT_WORDS = 3  # shorter is an answer ("yes", "the blue one")
UNKNOWN_SOUND = 0.65  # before it has spoken: what it mostly says of a pause, and less than of most ends
ALONE = 0.7

FILLERS = frozenset(
    "um uh er erm hmm mm well so and but or like 嗯 呃 那个 这个 就是 然后 还有 但是 因为 所以 如果".split()
)
GREETINGS = frozenset(["hello", "hi", "hey", "good morning", "good afternoon", "good evening", "你好", "您好", "喂"])
ANSWERS = frozenset(
    "yes yeah no nope okay ok sure right correct exactly never"
    " 是的 是 对 对的 不是 不 没有 好的 好 可以 行 不用".split()
)
# After these words more must come; after the second row's not where the sentence asks for what is missing.
_TORN = frozenset("a an the my your our their its every 把 跟 和 从 向 与 为了".split())
_STRANDED = frozenset("with for from of to at into than about".split())
_ASKED_FOR = re.compile(r"\b(?:what|who|whom|whose|where|which|how)\b", re.IGNORECASE)
# How English asks, and what in either language makes a question, a request or a farewell of it.
_ASKING = frozenset(
    "what when where who whose which why how is are was were do does did can could may might will would shall should"
    " have has am please".split()
)
_ASKING_CUES = re.compile(
    r"\?|？|\bplease\b|\bi(?: would|'d) like\b|\bi (?:want|need)\b|\bthank|\bbye\b|\bwhether\b|\bhelp\b"
    # Who reports a trouble asks for its cure.
    r"|\b(?:broken|damaged|faulty|missing|lost|stolen|wrong|late|hurts?|(?:not|n't) (?:work|arrive|fit|open)\w*)\b"
    r"|坏|丢|疼|没到|没收到|不能用|投诉"
    r"|[吗呢么几谁哪请]|什么|多少|怎么|我想|我要|谢谢|再见",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_NUMBER_WORDS = frozenset(
    "zero oh one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty seventy"
    " eighty ninety hundred thousand double".split()
)
_CJK_DIGITS = "零一二三四五六七八九十百千万幺两"


def finished(
    sound: float | None,
    text: float | None,
    said: str,
    more_to_come: bool = False,
    expected: Sequence[Expected] = (),
) -> float | None:
    """P(the caller has finished), 0..1; None while there is no witness at all.

    sound: the turn model's P(finished). text: the language model's P(the sentence ends after `said`).
    expected: numbers whose length is known, so that their end is.
    more_to_come: the text's witness has been asked and has not answered; until then the sound alone is not trusted far.
    """
    if holds_floor(said):
        return 0.0  # "um" sounds as finished as "yes"
    digits_left = missing(said, expected)
    if digits_left is not None:
        # Before the last digit more must come, whoever says otherwise; after it nothing is left to say.
        return NUMBER_INCOMPLETE if digits_left else NUMBER_COMPLETE
    if sound is None and text is None:
        return None
    if text is None:
        return min(sound, ALONE) if more_to_come and sound is not None else sound
    heard = max(_log_odds(UNKNOWN_SOUND if sound is None else sound), SOUND_LOWEST)
    odds = SOUND_WEIGHT * heard + TEXT_WEIGHT * _log_odds(text) + BIAS
    if is_torn(said):
        odds -= TORN_DOUBT
    elif ends_in_number(said):
        odds -= NUMBER_DOUBT
    elif is_statement(said):
        odds -= STATEMENT_DOUBT
    elif " ".join(_WORDS.findall(said.lower())) in ANSWERS:
        odds += ANSWER_BONUS
    return 1.0 / (1.0 + math.exp(-odds))


def is_statement(said: str) -> bool:
    """Whether something is told, rather than asked, asked for or answered."""
    words = _WORDS.findall(said.lower())
    count = sum(len(w) if not w.isascii() else 1 for w in words)
    return count >= STATEMENT_WORDS and words[0] not in _ASKING and _ASKING_CUES.search(said) is None


def holds_floor(said: str) -> bool:
    """Whether more must come: a greeting alone, or a last word that people say while they look for the next."""
    words = _WORDS.findall(said.lower())
    if not words:
        return False
    if " ".join(words) in GREETINGS:
        return True
    return words[-1] in FILLERS or any(words[-1].endswith(f) for f in FILLERS if not f.isascii())


def is_torn(said: str) -> bool:
    """Whether the last word needs another one after it: an article, or a preposition whose object nobody asked for."""
    words = _WORDS.findall(said.lower())
    if len(words) < 2 and all(w.isascii() for w in words):
        return False
    last = words[-1]
    if last in _TORN or any(last.endswith(t) for t in _TORN if not t.isascii()):
        return True
    return last in _STRANDED and _ASKED_FOR.search(said) is None


def ends_in_number(said: str) -> bool:
    """Whether a number, or a digit of one, was said last."""
    words = _WORDS.findall(said.lower())
    return bool(words) and (words[-1][-1].isdigit() or words[-1] in _NUMBER_WORDS or words[-1][-1] in _CJK_DIGITS)


def _log_odds(p: float) -> float:
    p = min(max(p, 1e-6), 1 - 1e-6)
    return min(max(math.log(p / (1 - p)), LOWEST), HIGHEST)
