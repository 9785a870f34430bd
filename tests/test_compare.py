"""The comparison tools: what they judge and count. Their measurements need packages that are not installed here."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.engines.moonshine import Decoded, Decoder
from pipeline.ports import CAPTURE_RATE, Samples

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("We are open nine to six.", {"9", "6"}),
        ("It costs $5.50.", {"5.50"}),
        ("One moment, the last one.", set()),
        ("Within thirty days", {"30"}),
    ],
)
def test_numbers_are_found_however_written(tools: Any, text: str, found: set[str]) -> None:
    assert tools("compare_llm").numbers(text) == found


def test_an_invented_number_is_told_from_a_given_one(tools: Any) -> None:
    llm = tools("compare_llm")
    assert not llm.numbers("You have 30 days.") - llm.numbers("Within thirty days.")
    assert llm.numbers("You have 60 days.") - llm.numbers("Within thirty days.") == {"60"}


def test_what_is_carried_of_a_fact(tools: Any) -> None:
    carried = tools("compare_llm").carried
    fact = "Delivery is free above fifty dollars."
    assert carried(fact, fact) == 1.0
    assert carried(fact, "Delivery is free.") == 0.4  # delivery, free of delivery, free, above, fifty, dollars
    assert carried("No.", "anything") == 1.0


def test_a_way_whose_package_is_absent_names_the_pin(tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    llm = tools("compare_llm")
    monkeypatch.setitem(llm.PINS, "no_such_package", "no-such-package==1.0")
    monkeypatch.setitem(llm.PINS, "numpy", "numpy==2.4.6")
    assert llm.missing(["numpy", "no_such_package"]) == ["no-such-package==1.0"]


def test_every_way_names_packages_that_are_pinned(tools: Any) -> None:
    llm = tools("compare_llm")
    assert all(name in llm.PINS for way in llm.WAYS.values() for name in way.needs)


def test_a_failed_way_stands_in_the_table_with_its_reason(tools: Any) -> None:
    text = tools("compare_llm").table(
        [{"way": "a", "busy": False, "load_s": 1.5}, {"way": "b", "failed": "pip install x"}]
    )
    assert "| a | 1.5 |" in text
    assert "| b | pip install x |" in text


def test_the_neighbour_runs_and_is_ended(tools: Any) -> None:
    import psutil

    def children() -> set[int]:
        return {c.pid for c in psutil.Process().children()}

    before = children()
    with tools("compare_llm").neighbour(True):
        assert len(children() - before) == 1
    assert not children() - before


class Heard(Decoder):
    """A decoder that says how long its pieces were."""

    def __init__(self) -> None:
        self.given: list[int] = []

    def decode(self, samples: Samples, guess: Sequence[int] = ()) -> Decoded:
        self.given.append(samples.size)
        return Decoded((samples.size,))

    def text(self, decoded: Decoded) -> str:
        return f"{decoded.tokens[0]}" if decoded.tokens else ""


def test_at_pauses_settles_in_the_pause_and_loses_nothing(tools: Any) -> None:
    asr = tools("compare_asr")
    speech = np.random.default_rng(1).normal(0.0, 0.1, 5 * CAPTURE_RATE).astype(np.float32)
    speech[3 * CAPTURE_RATE : int(3.5 * CAPTURE_RATE)] = 0.0
    text, costs = asr.hear(asr.AtPauses(Heard()), speech)
    first, rest = map(int, text.split())
    assert 3 * CAPTURE_RATE < first < 3.5 * CAPTURE_RATE
    assert first + rest == speech.size
    assert [at for at, *_ in costs][:2] == [0.3, 0.6]


def test_monologues_are_long_and_always_the_same(tools: Any) -> None:
    asr = tools("compare_asr")
    short = asr.clips()
    assert len(short) > 20
    once, again = list(asr.joined(short, 2)), list(asr.joined(short, 2))
    assert [t for _, t in once] == [t for _, t in again]
    assert once[0][1] != once[1][1]
    assert all(asr.LONG_S * CAPTURE_RATE < a.size < 2 * asr.LONG_S * CAPTURE_RATE for a, _ in once)


@pytest.mark.parametrize("script", ["compare_llm.py", "compare_asr.py"])
def test_help_needs_no_runtime(script: str) -> None:
    done = subprocess.run([sys.executable, f"tools/{script}", "--help"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "--json" in done.stdout
