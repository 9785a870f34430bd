"""Every text is there in both languages, and every key a page asks for exists."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from pipeline.blame import Reason
from pipeline.errors import Code
from pipeline.events import NoticeCode, State
from pipeline.settings import tunables
from pipeline.ui import words
from pipeline.ui.remedies import of_reason, tables

ROOT = Path(__file__).parent.parent
SOURCES = [ROOT / "app.py", *(ROOT / "pages").glob("*.py"), *(ROOT / "pipeline" / "ui").glob("*.py")]
CHINESE = re.compile(r"[\u4e00-\u9fff]")
TEXT = words.pairs()["text"]


@pytest.mark.parametrize("code", Code)
def test_every_error_says_what_and_what_to_do_in_both_languages(code: Code) -> None:
    en, zh = words.of_error(code, "en"), words.of_error(code, "zh")
    assert en.what
    assert en.do
    assert zh.what
    assert zh.do
    assert not CHINESE.search(en.what + en.do)
    assert CHINESE.search(zh.what)
    assert CHINESE.search(zh.do)


@pytest.mark.parametrize("code", NoticeCode)
def test_every_notice_says_what_and_what_to_do_in_both_languages(code: NoticeCode) -> None:
    en, zh = words.of_notice(code, "en"), words.of_notice(code, "zh")
    assert en.what
    assert en.do
    assert not CHINESE.search(en.what + en.do)
    assert CHINESE.search(zh.what)
    assert CHINESE.search(zh.do)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_for_a_slow_turn_has_words_in_both_languages(reason: Reason) -> None:
    en, zh = of_reason(reason, "en"), of_reason(reason, "zh")
    assert en.what
    assert en.do
    assert not CHINESE.search(en.what + en.do)
    assert CHINESE.search(zh.what)
    assert CHINESE.search(zh.do)


def test_no_advice_is_left_over_for_a_code_that_is_gone() -> None:
    assert set(tables()["errors"]) == set(Code)
    assert set(tables()["notices"]) == set(NoticeCode)


@pytest.mark.parametrize("key", TEXT)
def test_both_languages_of_a_text_take_the_same_values(key: str) -> None:
    en, zh = TEXT[key]
    assert bool(en) == bool(zh)
    assert not CHINESE.search(en)
    fields = [{name for _, name, _, _ in string.Formatter().parse(text) if name} for text in (en, zh)]
    assert fields[0] == fields[1]


def test_every_setting_group_and_unit_has_words() -> None:
    tables_of_pairs = words.pairs()
    for tunable in tunables():
        assert tunable.name in tables_of_pairs["settings"], tunable.name
        assert tunable.unit in tables_of_pairs["units"], tunable.unit
        assert f"group.{tunable.group}" in TEXT, tunable.group
    assert set(tables_of_pairs["settings"]) == {t.name for t in tunables()}


def test_every_state_and_every_reason_for_no_call_has_words() -> None:
    from pipeline.ui.webrtc import WORDS, Reason

    assert all(f"state.{state}" in TEXT for state in State)
    assert all(f"call.{reason}" in TEXT for reason in Reason)
    assert set(WORDS) == set(words.LANGUAGES)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_every_key_a_page_asks_for_exists(path: Path) -> None:
    asked = re.findall(r"""\bsay\(\s*["']([\w.-]+)["']""", path.read_text("utf-8"))
    assert [key for key in asked if key not in TEXT] == []


def test_no_page_writes_chinese_of_its_own() -> None:
    # webrtc.py holds the component's own labels.
    allowed = {"words.py", "engine_words.py", "setting_words.py", "remedies.py", "webrtc.py"}
    for path in SOURCES:
        if path.name not in allowed:
            assert not CHINESE.search(path.read_text("utf-8")), path.name


def test_the_kinds_and_languages_of_the_bundled_callers_have_words() -> None:
    from pipeline.ui.sample import FOLDER, callers

    found = callers()
    assert {c.lang for c in found} == {"en", "zh"}
    for caller in found:
        assert (FOLDER / caller.file).is_file()
        assert caller.text in caller.label("zh")
