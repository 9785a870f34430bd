"""One model; everything else is generated from it."""

from pathlib import Path

import pytest

from pipeline.settings import Settings, parse_set, settings_table, tunables

ROOT = Path(__file__).resolve().parent.parent


def test_every_setting_has_unit_help_and_a_default_within_its_bounds():
    for t in tunables():
        assert t.help_en, t.name
        assert t.help_zh, t.name
        if isinstance(t.default, (int, float)) and not isinstance(t.default, bool) and not t.choices:
            assert t.low is not None, t.name
            assert t.low <= t.default <= t.high, t.name


def test_set_takes_strings_of_every_kind():
    s = parse_set(["endpoint_floor_ms=150", "draft=false", "out-ptime-ms=10", "speed=1.5", "asr=other"])
    assert (s.endpoint_floor_ms, s.draft, s.out_ptime_ms, s.speed, s.asr) == (150, False, 10, 1.5, "other")


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (["nonsense=1"], "no setting named nonsense"),
        (["endpoint_floor_ms=99999"], "endpoint_floor_ms"),
        (["endpoint_floor_ms"], "NAME=VALUE"),
        (["endpoint_floor_ms=800", "endpoint_ceiling_ms=300"], "lower the floor"),
        (["transport=smoke"], "transport"),
    ],
)
def test_a_wrong_setting_is_told_in_words(pairs, words):
    with pytest.raises(ValueError, match=words):
        parse_set(pairs)


def test_settings_are_frozen_and_changed_gives_the_next():
    s = Settings()
    assert s.changed(speed=1.2).speed == 1.2
    assert s.speed == 1.0
    with pytest.raises(ValueError, match="speed"):
        s.changed(speed=9)


def test_the_table_names_every_setting():
    for lang in ("en", "zh"):
        table = settings_table(lang)
        assert all(f"`{t.name}`" in table for t in tunables())


@pytest.mark.parametrize(("file", "lang"), [("README.md", "en"), ("README.zh-CN.md", "zh")])
def test_the_readme_has_the_table_as_it_is(file, lang):
    assert settings_table(lang) in (ROOT / file).read_text(encoding="utf-8")
