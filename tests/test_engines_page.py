"""The Engines page, and what the Conversation page says of engines that are missing; through AppTest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from pipeline import stock, surroundings
from pipeline.engines.hub import HubModel, Presence, presence_of
from pipeline.engines.registry import Kind, rows
from pipeline.errors import Code
from pipeline.settings import Settings
from pipeline.stock import Lack, Shortage
from pipeline.ui import downloads as fetched
from pipeline.ui import resources
from pipeline.ui.downloads import Downloads, Fate, Job
from pipeline.ui.words import of_error, say
from tests.test_pages import Stand, html, stand, visit  # noqa: F401  (a fixture)
from tests.tiny.hub import TinyHub, served

WAITS_S = 60.0


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty folder of models, and no profile, for the page and for what it starts."""
    for name in (surroundings.PROFILE, surroundings.DOWNLOADS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(surroundings.MODELS, str(tmp_path / "models"))
    monkeypatch.setenv("no_proxy", "*")
    fetched.downloads.clear()
    yield tmp_path / "models"
    for model in stock.all_models().values():
        job = fetched.downloads().of(model)
        if job is not None:
            job.cancel()
            assert job.wait(WAITS_S)
    fetched.downloads.clear()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[TinyHub]:
    with TinyHub() as made:
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", made.url)
        yield made


def model() -> HubModel:
    """One that an engine of the page needs."""
    return next(iter(stock.all_models().values()))


def key_of(wanted: HubModel) -> str:
    """The end of the widget keys of a model, below the first engine that needs it."""
    row = next(r for r in rows() if wanted in r.models)
    return f"{row.kind.value}-{row.name}-{wanted.name}"


def engines_page(lang: str = "en") -> AppTest:
    at = visit(lang)
    at.switch_page("pages/engines.py").run()
    assert not at.exception, at.exception
    return at


def keys(at: AppTest) -> set[str]:
    return {b.key for b in at.button}


def commands(at: AppTest) -> list[str]:
    return [c.value for c in at.code]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_engine_is_there_with_what_it_is_and_what_it_needs(stand: Stand, lang: str) -> None:  # noqa: F811
    at = engines_page(lang)
    shown = html(at)
    for row in rows():
        assert row.licence in shown
        assert f"<b>{row.name}</b>" in shown
    assert shown.count(say("eng.in-use", lang)) == len(stock.chosen(Settings()))
    assert all(f"#### {say(f'stage.{kind.value}', lang)}" in [m.value for m in at.markdown] for kind in Kind)
    assert f"python -m pipeline download {model().name}" in commands(at)


def test_downloads_are_no_button_unless_the_operator_says_so(
    stand: Stand,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = engines_page()
    assert f"get.{key_of(model())}" not in keys(at)
    assert say("eng.off", "en") in [i.value for i in at.info]
    monkeypatch.setenv(surroundings.DOWNLOADS, "1")
    at = engines_page()
    assert f"get.{key_of(model())}" in keys(at)
    assert say("eng.off", "en") not in [i.value for i in at.info]


def test_a_download_is_started_followed_and_ends_in_a_model(
    stand: Stand,  # noqa: F811
    hub: TinyHub,
    models: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(surroundings.DOWNLOADS, "1")
    hub.put(model().id, served(model(), 100_000))
    at = engines_page()
    at.button(key=f"get.{key_of(model())}").click().run()
    assert not at.exception
    job = fetched.downloads().of(model())
    assert job is not None
    assert job.wait(WAITS_S)
    assert (job.fate, job.error) == (Fate.DONE, None)
    assert job.progress.share == 1.0
    assert presence_of(model(), models) is Presence.WHOLE
    at.run()
    assert any(t.value.startswith(model().name) and say("eng.whole", "en") in t.value for t in at.text)
    assert f"get.{key_of(model())}" not in keys(at)


def test_a_running_download_can_be_cancelled_by_any_visitor_and_gone_on_with(
    stand: Stand,  # noqa: F811
    hub: TinyHub,
    models: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(surroundings.DOWNLOADS, "1")
    repository = hub.put(model().id, served(model(), 3_000_000), bytes_per_s=300_000)
    job = fetched.downloads().start(model(), models)
    assert fetched.downloads().start(model(), models) is job
    while not job.progress.share and job.running:
        job.wait(0.05)
    at = engines_page()
    assert f"cancel.{key_of(model())}" in keys(at)
    at.button(key=f"cancel.{key_of(model())}").click().run()
    assert job.wait(WAITS_S)
    assert job.fate is Fate.STOPPED
    at.run()
    assert say("get.stopped", "en") in [c.value for c in at.caption]
    assert at.button(key=f"get.{key_of(model())}").label == say("get.resume", "en")
    repository.bytes_per_s = 0
    repository.asked.clear()
    job = fetched.downloads().start(model(), models)
    assert job.wait(WAITS_S)
    assert job.fate is Fate.DONE
    assert any(a.start > 0 for a in repository.asked)


def test_a_failed_download_says_why_and_what_to_do(
    stand: Stand,  # noqa: F811
    models: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(surroundings.DOWNLOADS, "1")
    monkeypatch.setenv("MODELSCOPE_ENDPOINT", "http://127.0.0.1:9")
    job = fetched.downloads().start(model(), models)
    assert job.wait(WAITS_S)
    assert job.error is not None
    assert job.error.code is Code.NETWORK
    shown = html(engines_page("zh"))
    assert "network.unreachable" in shown
    assert of_error(Code.NETWORK, "zh").do in shown


def test_a_download_that_dies_without_a_word_is_an_error_too(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(fetched, "_command", lambda *_: [sys.executable, "-c", "raise SystemExit('out of ideas')"])
    job = Job(model(), models)
    assert job.wait(WAITS_S)
    assert job.error is not None
    assert job.error.code is Code.INTERNAL
    assert "out of ideas" in job.error.what


def test_two_visitors_who_want_one_model_share_a_download(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(fetched, "_command", lambda *_: [sys.executable, "-c", "input()"])
    shared = Downloads()
    first = shared.start(model(), models)
    assert shared.start(model(), models) is first
    first.cancel()
    assert first.wait(WAITS_S)


# -- on the Conversation page


LACKS = (
    Shortage(Kind.ASR, "wanting", (Lack(Code.WEIGHTS_MISSING, "tiny is not on this machine", "download tiny"),)),
    Shortage(Kind.TTS, "keyless", (Lack(Code.KEY_MISSING, "A_KEY is not set", "export A_KEY=..."),)),
)
OTHER_VOICE = Settings(asr="wanting", tts="keyless", scenario="shop-zh", speed=1.5)


def _lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "shortages", lambda settings: LACKS if settings.asr == "wanting" else ())


def begin(settings: Settings, lang: str = "en") -> AppTest:
    from tests.test_pages import APP, TIMEOUT

    at = AppTest.from_file(APP, default_timeout=TIMEOUT)
    at.session_state["lang"] = lang
    at.session_state["settings"] = settings
    at.run()
    assert not at.exception, at.exception
    return at


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_missing_engines_are_all_named_with_the_way_to_get_them_and_nothing_is_loaded(
    stand: Stand,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    lang: str,
) -> None:
    _lacking(monkeypatch)
    at = begin(OTHER_VOICE, lang)
    shown = html(at)
    for text in ("wanting", "keyless", "weights.missing", "key.missing", of_error(Code.KEY_MISSING, lang).what):
        assert text in shown
    assert commands(at) == ["download tiny", "export A_KEY=..."]
    assert at.button(key="start.not-yet").disabled
    assert stand.loads == 0
    assert stand.calls == []


def test_the_embedded_engines_are_used_only_when_the_visitor_says_so(
    stand: Stand,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _lacking(monkeypatch)
    at = begin(OTHER_VOICE)
    at.run()
    assert stand.loads == 0
    at.button(key="use.embedded").click().run()
    assert not at.exception
    assert stand.loads == 1
    settings = at.session_state["settings"]
    assert (settings.asr, settings.tts, settings.scenario) == ("moonshine", "hibari", "shop-en")
    assert settings.speed == 1.5
    assert at.selectbox(key="set.asr").value == "moonshine"
    assert stand.calls


def test_what_was_fetched_meanwhile_is_noticed_by_itself(
    stand: Stand,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _lacking(monkeypatch)
    at = begin(OTHER_VOICE.changed(scenario="shop-en"))
    assert stand.loads == 0
    monkeypatch.setattr(resources, "shortages", lambda _settings: ())
    at.run()
    assert stand.loads == 1


def test_the_engines_page_is_there_while_engines_are_missing(
    stand: Stand,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _lacking(monkeypatch)
    at = begin(OTHER_VOICE)
    at.switch_page("pages/engines.py").run()
    assert not at.exception
    assert say("eng.about", "en") in [c.value for c in at.caption]
    assert stand.loads == 0


def test_a_profile_that_cannot_be_read_is_said_and_nothing_is_loaded(
    stand: Stand,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(surroundings.PROFILE, "artikel")
    at = visit()
    assert "profile.unknown" in html(at)
    assert stand.loads == 0
    at.button(key="use.embedded").click().run()
    assert stand.loads == 1
    assert "profile.unknown" not in html(at)


def test_a_visit_begins_with_the_operator_s_profile_and_resets_to_it(
    stand: Stand,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("speed = 1.2\n")
    monkeypatch.setenv(surroundings.PROFILE, str(mine))
    at = visit()
    assert at.session_state["settings"].speed == 1.2
    at.slider(key="set.speed").set_value(1.5).run()
    at.button(key="set.reset").click().run()
    assert at.session_state["settings"].speed == 1.2


def test_a_profile_can_be_chosen_on_the_page(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(resources, "shortages", lambda _settings: ())
    at = engines_page()
    at.selectbox(key="profile.which").set_value("article").run()
    at.button(key="profile.use").click().run()
    assert not at.exception
    settings = at.session_state["settings"]
    assert (settings.asr, settings.tts, settings.scenario) == ("sensevoice", "cosyvoice3", "shop-zh")
    assert stand.sessions[0].closed
    assert stand.sessions[-1].settings.tts == "cosyvoice3"


def test_keys_come_from_the_environment_or_the_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    class Secrets(dict[str, str]):
        def load_if_toml_exists(self) -> bool:
            return True

    monkeypatch.setattr(resources.st, "secrets", Secrets(A_KEY="of the file", B_KEY="of the file"))
    monkeypatch.setenv("A_KEY", "of the environment")
    assert [resources.secret(n) for n in ("A_KEY", "B_KEY", "C_KEY")] == ["of the environment", "of the file", ""]


def test_a_long_import_is_seen_to_move(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    import threading

    from pipeline import build
    from pipeline.ui import frame

    gate = threading.Event()

    def slow(_settings: Settings, progress: object, _secret_of: object) -> object:
        progress("sensevoice", 0.4)  # type: ignore[operator]
        gate.wait(20)
        return object()

    monkeypatch.setattr(build, "load_engines", slow)
    monkeypatch.setattr(frame, "_LONG_S", 0.0)
    at = visit()
    assert say("warm.elapsed", "en", what="sensevoice", s=0) in [t.value for t in at.text]
    gate.set()
