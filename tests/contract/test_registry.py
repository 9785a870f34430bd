"""The rows themselves: complete, known by name, and each one can be tested here."""

from __future__ import annotations

import sys

import pytest

from pipeline.engines.registry import Kind, Row, create, row, rows
from pipeline.errors import Code, EngineError
from pipeline.ports import EngineOptions
from tests.contract.ground import tiny
from tests.tiny import makers

EVERY = [pytest.param(r, id=f"{r.kind}-{r.name}") for r in rows(scripted=True)]


@pytest.mark.parametrize("known", EVERY)
def test_a_row_is_complete(known: Row) -> None:
    assert row(known.kind, known.name) is known
    assert known.licence
    assert known.languages
    assert known.about("en") != known.about("zh")
    assert all("==" in p for p in known.packages), "every package is pinned"
    if not known.scripted:
        assert known.install.startswith("pip install ") or not known.packages
        if known.weights:
            assert sum(w.size for w in known.weights) / 1e6 == pytest.approx(known.size_mb, abs=0.1)


@pytest.mark.parametrize("known", EVERY)
def test_a_row_can_be_tested_here(known: Row) -> None:
    """Its weights come in a wheel, or tests/tiny knows how to make it run without any."""
    assert known.scripted or bool(known.weights) != tiny(known)


def test_tiny_models_are_made_for_engines_there_are() -> None:
    assert makers().keys() <= {(r.kind, r.name) for r in rows()}


def test_each_kind_has_a_real_engine_and_scripted_ones_are_not_listed() -> None:
    assert {r.kind for r in rows()} == set(Kind)
    assert not [r for r in rows() if r.scripted]


def test_the_default_settings_name_real_engines() -> None:
    from pipeline.settings import Settings

    chosen = Settings()
    names = (chosen.vad, chosen.turn_model, chosen.asr, chosen.llm, chosen.tts)
    assert not [n for kind, n in zip(Kind, names, strict=True) if row(kind, n).scripted]


def test_an_unknown_name_is_met_with_the_known_ones() -> None:
    with pytest.raises(EngineError, match="moonshine") as caught:
        create(Kind.ASR, "whisperer", EngineOptions())
    assert caught.value.code is Code.UNKNOWN_ENGINE


def test_a_missing_package_is_met_with_its_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # what import meets when it is not installed
    with pytest.raises(EngineError, match="onnxruntime") as caught:
        create(Kind.VAD, "silero", EngineOptions())
    assert caught.value.code is Code.PACKAGE_MISSING
    assert "pip install onnxruntime==" in caught.value.remedy
