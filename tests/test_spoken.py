"""Text for the ear: what a voice is given of what the page shows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.phrases import speakable
from pipeline.ports import CAPTURE_RATE, Asr, Cancel, EngineOptions, Samples, Style, Tts, never
from pipeline.spoken import Language, language, spoken
from pipeline.turn import Tag
from pipeline.unsaid import plain, said
from pipeline.work import Prepare, Say, Voice, reads_numbers

ROOT = Path(__file__).parents[1]

ENGLISH = {
    # counting
    "I have 2 cats.": "I have two cats.",
    "1,234,567 people": "one million two hundred thirty four thousand five hundred and sixty seven people",
    "size 10.5": "size ten point five",
    "2 1/2 cups": "two and a half cups",
    "½ cup": "one half cup",
    "a 3-day trip": "a three-day trip",
    "the 2nd floor": "the second floor",
    "order 1500 units": "order fifteen hundred units",
    '"5 items"': '"five items"',
    "10+ years": "ten plus years",
    "Wait, 5 more; 6 left": "Wait, five more; six left",
    # money
    "$25": "twenty five dollars",
    "It costs $12.50.": "It costs twelve dollars and fifty cents.",
    "$1.01": "one dollar and one cent",
    "$0.99": "ninety nine cents",
    "£3.50 or €12.99": "three pounds and fifty pence or twelve euros and ninety nine cents",
    "$1.2 million": "one point two million dollars",
    "US$ 30": "thirty US dollars",
    "30 CNY": "thirty yuan",
    "¥1,299.00": "one thousand two hundred and ninety nine yuan",
    "$5/day": "five dollars per day",
    "$5-$10": "five dollars to ten dollars",
    # dates and times
    "5:30 pm": "five thirty PM",
    "at 10:05": "at ten o five",
    "9am-6pm": "nine AM to six PM",
    "10:30-11:30": "ten thirty to eleven thirty",
    "in 1999": "in nineteen ninety nine",
    "the 1990s": "the nineteen nineties",
    "May 5": "May fifth",
    "May 22, 2026": "May twenty second, twenty twenty six",
    "2026-11-30": "the thirtieth of november twenty twenty six",
    "We are open 24/7.": "We are open twenty four seven.",
    # percent and units
    "5%": "five percent",
    "10-20%": "ten to twenty percent",
    "3 kg": "three kilograms",
    "1 kg": "one kilogram",
    "3 m away": "three meters away",
    "100 W": "one hundred watts",
    "25°C": "twenty five degrees Celsius",
    "20㎡": "twenty square meters",
    "50 km/h": "fifty kilometers per hour",
    # digit by digit
    "call 13812345678": "call one three eight, one two three four, five six seven eight",
    "+86 138 1234 5678": "plus eight six, one three eight, one two three four, five six seven eight",
    "+1 (555) 010-0134": "plus one, five five five, zero one zero, zero one three four",
    "(555) 010-0134": "five five five, zero one zero, zero one three four",
    "555-0134": "five five five, zero one three four",
    "Dial 911.": "Dial nine one one.",
    "order 1029 is ready": "order one zero two nine is ready",
    "Your order A-1029 shipped.": "Your order A. one zero two nine shipped.",
    "order number: 1029": "order number: one zero two nine",
    "ticket #1029": "ticket number one zero two nine",
    "#1029": "number one zero two nine",
    "#5": "number five",
    "No. 7": "number seven",
    "flight MU5101": "flight M.U. five one zero one",
    "room 305": "room three zero five",
    "PIN 0007": "PIN zero zero zero seven",
    # signs
    "Tom & Jerry": "Tom and Jerry",
    "3 x 4 = 12": "three times four equals twelve",
    "help@acme.com": "help at acme dot com",
    "see https://www.acme.com/a?b=c.": "see acme dot com.",
}
CHINESE = {
    "一共100元": "一共一百元",
    "共1,234,567人": "共一百二十三万四千五百六十七人",
    "我有2个": "我有两个",
    "第2个": "第二个",
    "第22个": "第二十二个",
    "0.5小时": "零点五小时",
    "1/3": "三分之一",
    "-5度": "负五度",
    # money
    "￥12.50": "十二点五元",
    "¥1,299.00": "一千二百九十九元",
    "12.00元": "十二元",
    "$25": "二十五美元",
    "HK$30": "三十港元",
    "30 USD": "三十美元",
    "$1.2亿": "一点二亿美元",
    "100-200元": "一百到两百元",
    "5元/天": "每天五元",
    # dates and times
    "今天是2026年11月30日": "今天是二零二六年十一月三十日",
    "2月2日": "二月二日",
    "2026-11-30": "二零二六年十一月三十日",
    "下午5:30": "下午五点三十分",
    "下午2：05": "下午两点零五分",
    "2点半": "两点半",
    "10:30-11:30": "十点三十分到十一点三十分",
    "6:30pm": "下午六点三十分",
    "24/7": "全天候",
    "7*24小时": "七乘二十四小时",
    # percent and units
    "增长5%": "增长百分之五",
    "５％": "百分之五",
    "30%-50%": "百分之三十到百分之五十",
    "5‰": "千分之五",
    "3kg": "三千克",
    "25℃": "二十五摄氏度",
    "20㎡": "二十平方米",
    "50km/h": "每小时五十公里",
    "3~5天": "三到五天",
    "5000+": "五千多",
    # digit by digit
    "电话13812345678": "电话幺三八，幺二三四，五六七八",
    "电话是138-1234-5678": "电话是幺三八，幺二三四，五六七八",
    "+86 138 1234 5678": "加八六，幺三八，幺二三四，五六七八",
    "010-62345678": "零幺零，六二三四五六七八",
    "400-123-4567": "四零零，幺二三，四五六七",
    "请拨打10086": "请拨打幺零零八六",
    "订单A-1029": "订单A幺零二九",
    "订单号：1029": "订单号：幺零二九",
    "验证码是004821": "验证码是零零四八二幺",
    "尾号1234": "尾号幺二三四",
    "航班MU5101": "航班MU五幺零幺",
    "房间305": "房间三零五",
    "订单5件": "订单五件",
    "No.1": "第一",
    "B2层": "B二层",
    # signs
    "官网 acme.com": "官网 acme点com",
    "3×4=12": "三乘四等于十二",
}
MIXED = {
    "我的 iPhone 15 很好": "我的 iPhone 十五 很好",
    "他说 please call me at 5 pm 好吗": "他说 please call me at five PM 好吗",
    "Please ask 王先生 at 5 pm.": "Please ask 王先生 at five PM.",
    "Please pay 5元 at 5 pm.": "Please pay 五元 at five PM.",
    "您有5 stars评价": "您有五 stars评价",
    "订单A-1029 shipped via SF Express on May 5": "订单A. one zero two nine shipped via SF Express on May fifth",
    "一共$25，重3 kg。": "一共二十五美元，重三千克。",
}
UNSAID = {
    "*smiles* Sure!": "Sure!",
    "(laughs) We can.": "We can.",
    "*Nods slowly and smiles.* Yes.": "Yes.",
    "（微笑）您好": "您好",
    "*轻轻地笑了笑*好的": "好的",
    "（用温柔的语气）好的": "好的",
    "[pause] We are open.": "We are open.",
    "【停顿】好": "好",
    "**Bold**, *very* `plain` and ~~not~~": "Bold, very plain and not",
    "## Title\n- one\n- two": "Title, one, two",
    "[our site](https://acme.com) is new": "our site is new",
    "<strong>hi</strong> you": "hi you",
    "Hi 😀 there": "Hi there",
    "好的😊。": "好的。",
    "👨‍👩‍👧 family": "family",
    "Hello :-)": "Hello",
    "a | b": "a, b",
    "snake_case_name": "snake case name",
}
SAID = [  # brackets that are no stage directions, marks that belong to words
    "We (the shop on the corner) are open.",
    "我们在二楼（电梯旁）。",
    "Don't worry, Mr. Smith's room is ready - really...",
    "“好的”，他说：‘没问题’——请稍等……",
    "(smiling faces greet every guest who comes into the shop)",
]


@pytest.mark.parametrize(("written", "heard"), ENGLISH.items(), ids=ENGLISH)
def test_english(written: str, heard: str) -> None:
    assert spoken(written) == heard


@pytest.mark.parametrize(("written", "heard"), CHINESE.items(), ids=CHINESE)
def test_chinese(written: str, heard: str) -> None:
    assert spoken(written, "zh") == heard


@pytest.mark.parametrize(("written", "heard"), MIXED.items(), ids=MIXED)
def test_each_piece_is_read_in_its_own_language(written: str, heard: str) -> None:
    assert spoken(written) == heard


@pytest.mark.parametrize(("written", "heard"), UNSAID.items(), ids=UNSAID)
def test_what_is_not_said(written: str, heard: str) -> None:
    assert spoken(written) == heard


@pytest.mark.parametrize("text", SAID)
def test_what_is_said_as_it_stands(text: str) -> None:
    assert spoken(text) == text


@pytest.mark.parametrize("text", ["", " ", "😀🚀", "...", "*smiles*", "（笑）", "[pause].", "***", "🇨🇳", "1️⃣"[1:], "—"])
def test_nothing_to_say_is_nothing(text: str) -> None:
    assert spoken(text) == ""


def test_a_text_without_letters_is_read_in_the_language_of_the_talk() -> None:
    assert spoken("5%.", "en") == "five percent."
    assert spoken("5%。", "zh") == "百分之五。"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello", "en"),
        ("您好", "zh"),
        ("好的OK", "zh"),
        ("Please call 王先生 today", "en"),
        ("12:30", "zh"),
        ("3 kg", "zh"),
    ],
)
def test_the_language_of_a_text(text: str, expected: Language) -> None:
    assert language(text, "zh") == expected


def test_a_voice_that_reads_numbers_is_left_those_that_count() -> None:
    assert spoken("Order 1029 costs $12.50 (laughs).", numbers=False) == (
        "Order one zero two nine costs 12 dollars and 50 cents."
    )


# -- properties

WORDS = st.lists(st.text("abcdefgxyzABC好的您是我们", min_size=1, max_size=8), min_size=1, max_size=8)
MARKS = st.sampled_from(["", ",", ".", "，", "。", " 😀", "**", "…", " *", "!", "`"])
FIGURES = st.text("0123456789.,:-/%$¥€°+#&=×()@ 元个点月日年kmgA", max_size=24)


@given(st.text(max_size=60), st.sampled_from(["en", "zh"]), st.booleans())
def test_it_never_raises(text: str, lang: Language, numbers: bool) -> None:
    assert isinstance(spoken(text, lang, numbers), str)


@given(FIGURES, st.sampled_from(["en", "zh"]))
@settings(deadline=None, max_examples=200)
def test_no_figure_is_left_to_the_voice(text: str, lang: Language) -> None:
    heard = spoken(text, lang)
    assert not any(c.isdigit() for c in heard)
    assert bool(heard) == speakable(text)


@given(WORDS)
def test_plain_words_are_untouched(words: list[str]) -> None:
    text = " ".join(words)
    assert plain(text)
    assert spoken(text) == text


@given(WORDS, st.lists(MARKS, min_size=8, max_size=8))
def test_nothing_speakable_is_lost(words: list[str], marks: list[str]) -> None:
    """Whatever marks and pictures stand between words, every letter is still there, in order."""
    text = " ".join(word + mark for word, mark in zip(words, marks, strict=False))
    assert [c for c in spoken(text) if c.isalpha()] == [c for c in text if c.isalpha()]


@given(st.one_of(FIGURES, st.text(max_size=30), WORDS.map(" ".join)), st.sampled_from(["en", "zh"]))
@settings(deadline=None)
def test_what_is_ready_for_the_ear_stays_as_it_is(text: str, lang: Language) -> None:
    heard = spoken(text, lang)
    if plain(heard):
        assert spoken(heard, lang) == heard


@given(st.text(max_size=60))
def test_tidying_twice_changes_nothing_more_for_the_ear(text: str) -> None:
    assert speakable(said(text)) or not spoken(text)


# -- where it is used


class Ear:
    """A voice that remembers what it was given."""

    name, rate = "ear", 48_000

    def __init__(self) -> None:
        self.given: list[str] = []

    def warm_up(self) -> None: ...

    def speak(self, phrase: str, style: Style, cancel: Cancel) -> Iterator[Samples]:
        self.given.append(phrase)
        yield np.full(480, 0.1, np.float32)


class Reader(Ear):
    reads_numbers = True


def _say(voice: Voice, text: str) -> list[bool]:
    return [sound.cached for sound in voice.say(Say(Tag(1), 0, text), Style(), never)]


def test_the_voice_is_given_text_for_the_ear() -> None:
    ear = Ear()
    assert _say(Voice(ear), "**Yes**, it is $25.") == [False]
    assert ear.given == ["Yes, it is twenty five dollars."]


def test_a_phrase_with_nothing_to_say_does_not_reach_the_voice() -> None:
    ear = Ear()
    assert _say(Voice(ear), "*smiles*") == []
    assert ear.given == []


def test_a_voice_that_reads_numbers_is_given_them() -> None:
    reader = Reader()
    _say(Voice(reader), "Order 1029: 25 dollars.")
    assert reader.given == ["Order one zero two nine: 25 dollars."]


def test_a_bare_number_is_read_in_the_language_of_the_phrase_before() -> None:
    ear = Ear()
    voice = Voice(ear)
    for text in ("一共是", "5%。", "That is", "5%."):
        _say(voice, text)
    assert ear.given == ["一共是", "百分之五。", "That is", "five percent."]


def test_prepared_phrases_are_found_by_what_is_written() -> None:
    ear = Ear()
    voice = Voice(ear)
    list(voice.prepare(Prepare(("It is $5.",)), Style(), never))
    assert _say(voice, "It is $5.") == [True]
    assert ear.given == ["It is five dollars."]


def test_words_alone_load_no_library() -> None:
    """Nor does a voice that reads numbers by itself: the embedded path's start and memory stay as they are."""
    code = (
        "import sys\nfrom pipeline.spoken import spoken\n"
        "spoken('Hello there!'), spoken('*smiles* 您好😀'), spoken('It is $5 at 5:30.', numbers=False)\n"
        "print('wetext' in sys.modules, 'kaldifst' in sys.modules)\n"
        "spoken('5%')\nprint('wetext' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["False", "False", "True"]


@pytest.fixture(scope="module")
def mouth_and_ear() -> tuple[Tts, Asr]:
    from pipeline.engines.registry import Kind, create

    return create(Kind.TTS, "hibari", EngineOptions()), create(Kind.ASR, "moonshine", EngineOptions())


@pytest.mark.engines
@pytest.mark.parametrize(
    ("written", "figures"),
    [
        ("It costs $12.50 in all.", "1250"),
        ("Please call +1 555 010 0134.", "5550100134"),  # read by the voice itself, some of it is lost
        ("Your order 1029 is ready.", "1029"),
        ("It is $5/day for members.", "5"),
    ],
)
def test_the_embedded_voice_is_heard_to_say_the_figures(
    mouth_and_ear: tuple[Tts, Asr], written: str, figures: str
) -> None:
    """Its own reading of what the rules leave it, recognised again."""
    import soxr

    tts, asr = mouth_and_ear
    assert reads_numbers(tts)
    audio = np.concatenate(list(tts.speak(spoken(written, numbers=False), Style(), never)))
    hearing = asr.listen()
    hearing.feed(np.asarray(soxr.resample(audio, tts.rate, CAPTURE_RATE), np.float32))
    assert figures in "".join(c for c in hearing.finish() if c.isdigit())
