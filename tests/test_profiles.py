"""Profiles: sets of engines by name or file, into settings, commands and the engines' options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline import __main__ as entry
from pipeline import build, doctor, profiles, stock, surroundings
from pipeline.cli import given_settings, parser_with_set
from pipeline.engines.hub import HubModel
from pipeline.engines.row import Kind, Row
from pipeline.errors import Code, EngineError, TurnaroundError
from pipeline.ports import EngineOptions
from pipeline.settings import Settings


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (surroundings.PROFILE, surroundings.MODELS, surroundings.DOWNLOADS):
        monkeypatch.delenv(name, raising=False)


def error_of(asked: str) -> TurnaroundError:
    with pytest.raises(TurnaroundError) as raised:
        profiles.read_profile(asked)
    assert raised.value.remedy
    return raised.value


def test_the_embedded_profile_is_the_default_and_changes_nothing() -> None:
    assert profiles.DEFAULT in profiles.names()
    assert profiles.read_profile() == profiles.read_profile("embedded") == Settings()


def test_the_article_and_hosted_profiles_name_their_stacks() -> None:
    article, hosted = profiles.read_profile("article"), profiles.read_profile("hosted")
    assert (article.vad, article.asr, article.llm, article.tts) == (
        "fsmn-vad",
        "sensevoice",
        "transformers",
        "cosyvoice3",
    )
    assert article.llm_model == "qwen2.5-0.5b-instruct"
    assert (hosted.asr, hosted.llm, hosted.tts) == ("paraformer", "openai", "dashscope")
    assert article.scenario == hosted.scenario == "shop-zh"


@pytest.mark.parametrize("name", profiles.names())
def test_every_engine_and_scenario_of_a_profile_exists(name: str) -> None:
    from pipeline.engines.registry import row
    from pipeline.scenario import names

    settings = profiles.read_profile(name)
    for kind, engine in stock.chosen(settings):
        assert row(kind, engine).name == engine
    assert settings.scenario in names()


def test_a_file_of_one_s_own_may_begin_with_another(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('base = "article"\ntts = "hibari"\nendpoint_floor_ms = 150\n')
    settings = profiles.read_profile(str(mine))
    assert (settings.tts, settings.endpoint_floor_ms, settings.asr) == ("hibari", 150, "sensevoice")
    other = tmp_path / "other.toml"
    other.write_text(f'base = "{mine}"\nasr = "moonshine"\n')
    assert profiles.read_profile(str(other)) == settings.changed(asr="moonshine")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('asr = \nllm = "x"', "line 1"),
        ('asrr = "x"', "asrr"),
        ("threads = 99", "threads"),
        ("[table]\nasr = 'x'", "table"),
        ("base = 3", "base"),
        ('base = "SELF"', "base"),
        ("endpoint_floor_ms = 900\nendpoint_ceiling_ms = 200", "endpoint_floor_ms"),
    ],
)
def test_a_bad_file_says_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(text.replace("SELF", str(mine)))
    error = error_of(str(mine))
    assert error.code is Code.BAD_PROFILE
    assert says in error.what
    assert str(mine) in error.what


def test_an_unknown_profile_names_the_known_ones(tmp_path: Path) -> None:
    for asked in ("artikel", str(tmp_path / "not-there.toml")):
        error = error_of(asked)
        assert error.code is Code.UNKNOWN_PROFILE
        assert "article" in error.remedy


# -- at the edges


def settings_of(*args: str) -> Settings:
    return given_settings(parser_with_set("x", None).parse_args(args))


def test_commands_begin_with_the_profile_and_set_changes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_of() == Settings()
    assert settings_of("--profile", "hosted").tts == "dashscope"
    monkeypatch.setenv(surroundings.PROFILE, "article")
    assert settings_of().tts == "cosyvoice3"
    assert settings_of("--profile", "embedded") == Settings()
    assert settings_of("--set", "tts=hibari") == profiles.read_profile("article").changed(tts="hibari")


def test_a_command_with_an_unknown_profile_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["doctor", "--profile", "artikel"]) == 2
    assert "article" in capsys.readouterr().err


def test_engines_are_given_settings_models_and_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: list[EngineOptions] = []

    def create(kind: Kind, name: str, options: EngineOptions) -> object:
        given.append(options)
        raise EngineError(Code.INTERNAL, "enough", "seen")

    monkeypatch.setattr(build, "create", create)
    monkeypatch.setenv(surroundings.MODELS, str(tmp_path))
    monkeypatch.setenv("A_KEY", "from the environment")
    settings = Settings(device="cpu")
    for secret_of in ((), (lambda name: f"of {name}",)):
        with pytest.raises(EngineError):
            build.load_engines(settings, lambda *_: None, *secret_of)
    assert [o.secret("A_KEY") for o in given] == ["from the environment", "of A_KEY"]
    assert all(o.models == tmp_path and o.settings == settings for o in given)


@pytest.mark.parametrize(("value", "allowed"), [("", False), ("0", False), ("no", False), ("1", True), ("true", True)])
def test_downloads_are_allowed_by_the_operator_only(monkeypatch: pytest.MonkeyPatch, value: str, allowed: bool) -> None:
    assert not surroundings.downloads_allowed()
    monkeypatch.setenv(surroundings.DOWNLOADS, value)
    assert surroundings.downloads_allowed() is allowed


# -- what is missing

MODEL = HubModel("tiny", "org/tiny", "v1", "MIT", ("zh",), 1000)
ROW = Row(
    Kind.LLM, "wanting", "m:f", "MIT", ("en",), ("numpy==0.0.1", "nosuchpackage==1.0"), (), 1.0, "a", "b",
    models=(MODEL,), needs=("A_KEY",),
)  # fmt: skip


def test_all_that_an_engine_lacks_is_named_with_the_way_to_get_it(tmp_path: Path) -> None:
    found = stock.lacks(ROW, Settings(), EngineOptions(models=tmp_path))
    assert [lack.code for lack in found] == [Code.PACKAGE_MISSING, Code.KEY_MISSING, Code.WEIGHTS_MISSING]
    assert "nosuchpackage missing" in found[0].what
    assert "pip install numpy==0.0.1 nosuchpackage==1.0" in found[0].how
    assert "A_KEY" in found[1].how
    assert found[2].how == "python -m pipeline download tiny"
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "model.pt").write_bytes(b"x")
    have = EngineOptions(models=tmp_path, secret=lambda name: "k")
    assert [lack.code for lack in stock.lacks(ROW, Settings(), have)] == [Code.PACKAGE_MISSING]


def test_the_embedded_engines_lack_nothing() -> None:
    assert stock.shortages(Settings(), EngineOptions()) == ()


def test_an_engine_that_does_not_exist_is_a_shortage_too() -> None:
    found = stock.shortages(Settings(asr="whisperer"), EngineOptions())
    assert [(s.kind, s.engine, s.lacks[0].code) for s in found] == [(Kind.ASR, "whisperer", Code.UNKNOWN_ENGINE)]
    assert "whisperer" in stock.in_lines(found)
    assert "->" in stock.in_lines(found)


def test_the_doctor_looks_at_the_engines_of_the_profile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(surroundings.MODELS, str(tmp_path))
    mine = tmp_path / "mine.toml"
    mine.write_text('vad = "fsmn-vad"\n')
    monkeypatch.setattr(doctor, "compiled", lambda: iter(()))
    assert entry.main(["doctor", "--profile", str(mine), "--json"]) == 1
    checks = {c["name"]: c for c in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["vad: fsmn-vad"]["status"] == "fail"
    assert "python -m pipeline download fsmn-vad" in checks["vad: fsmn-vad"]["remedy"]
    assert checks["tts: hibari"]["status"] in ("ok", "warn")


def test_the_quick_check_of_engines_ends_with_1_when_one_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["doctor", "--engines", "--set", "asr=whisperer"]) == 1
    assert "whisperer" in capsys.readouterr().out
    assert entry.main(["doctor", "--engines"]) == 0
