"""Openers suit what was said and never come twice running."""

import pytest

from pipeline.errors import Code, TurnaroundError
from pipeline.openers import load


@pytest.mark.parametrize(
    ("language", "said", "kind"),
    [
        ("en", "What are your opening hours?", "question"),
        ("en", "Is shipping free?", "question"),
        ("en", "This is John.", "question"),  # "is": a wrong guess may cost nothing, every opener suits anything
        ("en", "I would like to return a pair of shoes.", "request"),
        ("en", "My package arrived damaged.", "trouble"),
        ("en", "No, thank you.", "closing"),
        ("en", "Yes.", "other"),
        ("en", "Whatever", "other"),  # "what" is a word, not a beginning
        ("zh", "你们几点开门？", "question"),
        ("zh", "我想退一双鞋子。", "request"),
        ("zh", "谢谢，没有别的问题了。", "closing"),
        ("zh", "是的。", "other"),
    ],
)
def test_the_kind_fits(language, said, kind):
    openers = load(language)
    say = next(k.say for k in openers.kinds if k.kind == kind)
    assert openers.choose(said, "") == (say[0] if say else "")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_never_the_same_twice_running(language):
    openers, last = load(language), ""
    for said in ["Yes", "是的"] * 6:
        chosen = openers.choose(said, last)
        assert chosen
        assert chosen != last
        last = chosen


def test_a_broken_file_is_told(tmp_path):
    file = tmp_path / "openers.toml"
    file.write_text('[[en]]\nkind = "x"\n')
    with pytest.raises(TurnaroundError) as told:
        load("en", file)
    assert told.value.code is Code.BAD_SCENARIO
