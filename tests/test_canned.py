"""Which turns a canned reply answers."""

import pytest

from pipeline.canned import asked_for


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Goodbye.", "goodbye"),
        ("OK, bye bye!", "goodbye"),
        ("Thanks, that is all I needed.", "goodbye"),
        ("No, that's all, thank you.", "goodbye"),
        ("谢谢，没有别的问题了。", "goodbye"),
        ("好的，再见", "goodbye"),
        ("I want to speak with a manager.", "handover"),
        ("Can I talk to a real person please?", "handover"),
        ("我要转人工", "handover"),
        ("帮我找一下经理", "handover"),
        ("Thank you.", None),
        ("Thanks, and when do you close?", None),
        ("That is all wrong.", None),
        ("Is that all I have to pay?", None),
        ("Who is your manager?", None),
        ("说完再见以后你们几点开门", None),
        ("", None),
    ],
)
def test_what_needs_no_model(said, kind):
    assert asked_for(said) == kind
