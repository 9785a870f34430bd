"""The article's path from end to end: a Mandarin caller in Chromium's microphone, through Paraformer, a chat model by
transformers and CosyVoice 3's classes, to sound in the page. The weights are random and the voice is a stand-in
(tests/tiny), so what is heard and answered makes no sense; that the path holds is what is shown.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pipeline.browser.server import ROOT
from pipeline.engines.cosyvoice_checkout import HOME
from pipeline.surroundings import MODELS, PROFILE
from pipeline.ui.words import say
from tests.e2e_visit import App, asking, serving, sounding, visiting
from tests.tiny.voices import STAND_IN

pytestmark = pytest.mark.browser

MANDARIN = "zh_26_plain.flac"
ENGINES = {"silero", "smart-turn", "paraformer", "transformers", "cosyvoice3"}
_IN_USE = """() => [...document.querySelectorAll(".ta-engine")].filter(e => e.querySelector(".ta-use"))
    .map(e => e.querySelector("b").textContent)"""


@pytest.fixture(scope="module")
def article(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """The page with the operator's profile and models."""
    folder = tmp_path_factory.mktemp("article")
    subprocess.run([sys.executable, "-m", "tests.tiny", str(folder)], cwd=ROOT, check=True, timeout=300)
    environment = {
        PROFILE: str(folder / "profile.toml"),
        MODELS: str(folder / "models"),
        HOME: str(STAND_IN),
        "PYTHONPATH": os.pathsep.join((str(folder / "packages"), str(ROOT))),
    }
    with serving(folder, environment) as served:
        yield served


def test_a_mandarin_caller_is_answered_by_the_articles_stack(article: App, tmp_path: Path) -> None:
    with visiting(article.url, asking(tmp_path / "mic.wav", MANDARIN)) as visitor:
        visitor.call(record=True)
        turn = visitor.answered(1)
        assert any("\u4e00" <= sign <= "\u9fff" for sign in turn.heard), f"Paraformer heard {turn.heard!r}"
        assert turn.ms["total"] > 0
        visitor.browser.wait(1.0)
        ear = visitor.browser.stop_capture().ear
        assert sounding(ear.pcm[np.abs(ear.pcm.astype(np.int32)) > 0]), "nothing was heard in the page"
        visitor.page.get_by_role("link", name=say("page.engines", "en")).click()
        visitor.until("the engines of the path are shown", lambda: set(visitor.page.evaluate(_IN_USE)) == ENGINES)
        assert visitor.our_errors() == []
