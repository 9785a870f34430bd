"""The Engines page in a browser: models are fetched from a hub on loopback by pressing a button."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline import stock, surroundings
from pipeline.browser.server import ROOT, Server
from pipeline.download import size
from pipeline.engines.hub import HubModel, Presence, presence_of
from pipeline.engines.registry import rows
from pipeline.ui.words import say
from tests.e2e_visit import Visitor, visiting
from tests.tiny.hub import TinyHub, served

pytestmark = pytest.mark.browser

PROFILE = 'vad = "fsmn-vad"\ntts = "cosyvoice3"\n'  # the second lacks its source for good: nothing is ever loaded
LOADS_S = 90.0


@contextmanager
def page_of(folder: Path, hub: TinyHub, allowed: str = "1") -> Iterator[tuple[Server, Path]]:
    """The app with an empty folder of models, whose hub is `hub`."""
    profile = folder / "profile.toml"
    profile.write_text(PROFILE)
    environment = {
        surroundings.PROFILE: str(profile),
        surroundings.MODELS: str(folder / "models"),
        surroundings.DOWNLOADS: allowed,
        "MODELSCOPE_ENDPOINT": hub.url,
        "no_proxy": "*",
        "COSYVOICE_HOME": "",
    }
    with Server(ROOT / "app.py", folder / "server.log", ["--runner.postScriptGC", "false"], environment) as server:
        yield server, folder / "models"
        log = (folder / "server.log").read_text(errors="replace")
        assert "Traceback" not in log, log[-6000:]


def card_of(visitor: Visitor, model: HubModel) -> str:
    """The selector of a model's line below the first engine that needs it."""
    row = next(r for r in rows() if model in r.models)
    return ".st-key-" + re.sub(r"[^A-Za-z0-9_-]", "-", f"model-{row.kind.value}-{row.name}-{model.name}")


def press(visitor: Visitor, model: HubModel, key: str, **values: object) -> None:
    visitor.page.locator(card_of(visitor, model)).get_by_role("button", name=say(key, "en", **values)).click()


def card_says(visitor: Visitor, model: HubModel, words: str) -> None:
    card = visitor.page.locator(card_of(visitor, model))
    visitor.until(f"{model.name}: {words!r}", lambda: words in card.inner_text(), LOADS_S)


def test_a_model_is_fetched_with_a_bar_and_another_download_is_cancelled(tmp_path: Path) -> None:
    first = next(m for m in stock.all_models().values() if m.name == "fsmn-vad")
    other = next(m for m in stock.all_models().values() if m.name != "fsmn-vad")
    with TinyHub() as hub, page_of(tmp_path, hub) as (server, models):
        hub.put(first.id, served(first, 600_000), bytes_per_s=150_000)
        hub.put(other.id, served(other, 5_000_000), bytes_per_s=100_000)
        with visiting(server.url) as visitor:
            visitor.says(say("miss.heading", "en"), LOADS_S)
            visitor.page.get_by_role("link", name=say("page.engines", "en"), exact=True).click()
            visitor.says(say("eng.about", "en"), LOADS_S)
            press(visitor, first, "get.start", size="1.8 MB")
            card_says(visitor, first, "0.6 MB")
            assert visitor.page.locator(f"{card_of(visitor, first)} [data-testid=stProgress]").count() == 1
            card_says(visitor, first, say("eng.whole", "en"))
            assert presence_of(first, models) is Presence.WHOLE
            missing = visitor.page.locator(".st-key-miss-short")
            visitor.until("it is missing no more", lambda: first.name not in missing.inner_text(), LOADS_S)
            assert "cosyvoice3" in missing.inner_text()
            press(visitor, other, "get.start", size=size(other.size))
            card_says(visitor, other, "5.0 MB")
            press(visitor, other, "get.cancel")
            card_says(visitor, other, say("get.stopped", "en"))
            assert presence_of(other, models) is Presence.HALF
            assert visitor.our_errors() == []


def test_where_the_operator_allows_no_downloads_the_command_is_shown(tmp_path: Path) -> None:
    with (
        TinyHub() as hub,
        page_of(tmp_path, hub, allowed="0") as (server, _models),
        visiting(server.url, lang="zh") as visitor,
    ):
        visitor.says(say("miss.heading", "zh"), LOADS_S)
        visitor.says("python -m pipeline download fsmn-vad")
        visitor.page.get_by_role("link", name=say("miss.page", "zh")).click()
        visitor.says(say("eng.off", "zh"), LOADS_S)
        assert visitor.page.get_by_role("button", name=say("get.start", "zh", size="1.8 MB")).count() == 0
