"""The doctor on machines with something wrong: each fault is found, named and given a remedy."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline import __main__ as entry
from pipeline import doctor
from pipeline.bench.environment import ROOT
from pipeline.doctor import Check, Status
from pipeline.engines import weights
from pipeline.engines.registry import rows
from pipeline.errors import Code, EngineError
from pipeline.ports import EngineOptions
from pipeline.settings import Settings


def _versions(changed: dict[str, str]) -> Callable[[str], str]:
    """As if everything were installed at its pin, but for `changed`."""
    pinned = doctor.pins(ROOT / "requirements.txt") | doctor.pins(ROOT / "requirements-dev.txt")
    return lambda name: (pinned | changed).get(name, "")


def _worst(checks: Iterator[Check]) -> Check:
    order = [Status.OK, Status.WARN, Status.FAIL]
    return max(checks, key=lambda c: order.index(c.status))


@pytest.mark.parametrize(
    ("version", "status"),
    [((3, 10), Status.FAIL), ((3, 11), Status.OK), ((3, 13), Status.OK), ((3, 15), Status.FAIL)],
)
def test_python_outside_the_tested_range_fails(version: tuple[int, int], status: Status) -> None:
    found = _worst(doctor.python_version(version))
    assert found.status is status
    assert bool(found.remedy) == (status is Status.FAIL)


@pytest.mark.parametrize(
    ("changed", "status", "names"),
    [
        ({}, Status.OK, ""),
        ({"torch": "2.13.0+cpu"}, Status.OK, ""),
        ({"streamlit": "1.66.0"}, Status.FAIL, "streamlit 1.66.0 (pinned"),
        ({"onnxruntime": ""}, Status.FAIL, "onnxruntime missing"),
        ({"pytest": ""}, Status.WARN, "pytest missing"),
        ({"torchaudio": "2.13.0"}, Status.FAIL, "does not load beside torch"),
    ],
)
def test_packages_are_held_against_their_pins(changed: dict[str, str], status: Status, names: str) -> None:
    found = _worst(doctor.packages(version_of=_versions(changed)))
    assert found.status is status
    assert names in found.found
    assert bool(found.remedy) == (status is not Status.OK)


def test_a_package_that_kills_its_process_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrong_cpu.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    (tmp_path / "broken_wheel.py").write_text("raise ImportError('libfoo.so is not there')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = _worst(doctor.compiled(("wrong_cpu", "broken_wheel", "json")))
    assert found.status is Status.FAIL
    assert "wrong_cpu: killed by signal 4" in found.found
    assert "broken_wheel: ImportError: libfoo.so" in found.found
    assert "json" not in found.found
    assert found.remedy
    assert _worst(doctor.compiled(("json",))).status is Status.OK


def test_absent_weights_warn_and_name_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "find", lambda _weight, _options: None)
    found = list(doctor.engines(Settings()))
    assert len(found) == 5
    assert {c.status for c in found} == {Status.WARN}
    assert "pip install --no-deps moonshine-voice==0.1.0" in " ".join(c.remedy for c in found)


def test_damaged_weights_and_unknown_engines_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(weight: weights.Weight, _options: EngineOptions) -> Path:
        raise EngineError(Code.WEIGHTS_CORRUPT, f"{weight.file} is damaged", "install it again")

    monkeypatch.setattr(weights, "find", damaged)
    found = list(doctor.engines(Settings(asr="whisperer", turn_model="none")))
    assert [c.name for c in found] == ["vad: silero", "asr: whisperer", "llm: smollm2-ort", "tts: hibari"]
    assert {c.status for c in found} == {Status.FAIL}
    assert all(c.remedy for c in found)
    assert "known: moonshine" in found[1].remedy


def test_a_taken_port_fails_and_another_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = doctor.port_free(port)
    assert found.status is Status.FAIL
    assert f"PORT={port + 1}" in found.remedy
    assert doctor.port_free(port).status is Status.OK


def test_a_full_disk_fails_even_where_the_cache_does_not_exist_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "not" / "yet"
    assert doctor.disk(cache).status is Status.OK
    monkeypatch.setattr(doctor, "FREE_DISK_GB", 1e9)
    found = doctor.disk(cache)
    assert found.status is Status.FAIL
    assert str(tmp_path) in found.remedy


def test_little_memory_and_one_core_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "FREE_MEMORY_GB", 1e9)
    monkeypatch.setattr(doctor, "cores", lambda: 1)
    found = {c.name: c for c in doctor.machine(tmp_path)}
    assert (found["cores"].status, found["memory"].status) == (Status.WARN, Status.FAIL)
    assert found["cores"].remedy
    assert found["memory"].remedy


def test_without_a_browser_only_the_browser_bench_is_lost() -> None:
    found = _worst(doctor.browser(lambda _name: None))
    assert found.status is Status.WARN
    assert "only the browser bench" in found.remedy
    assert _worst(doctor.browser(lambda name: f"/opt/{name}")).status is Status.OK


def test_an_untested_transport_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.transport import install

    assert _worst(doctor.transport()).status is Status.OK
    monkeypatch.setattr(install, "TESTED", {"streamlit": "0.1"})
    found = _worst(doctor._guarded("transport", doctor.transport))
    assert found.status is Status.FAIL
    assert "tested: 0.1" in found.found
    assert found.remedy


def test_a_check_that_breaks_is_a_finding_and_stops_no_other() -> None:
    def breaks() -> Iterator[Check]:
        yield Check("first", Status.OK, "fine")
        raise RuntimeError("the check fell over")

    found = list(doctor._guarded("x", breaks))
    assert [c.status for c in found] == [Status.OK, Status.FAIL]
    assert "the check fell over" in found[1].found
    assert found[1].remedy


@pytest.mark.parametrize(("status", "code"), [(Status.OK, 0), (Status.WARN, 0), (Status.FAIL, 1)])
def test_the_exit_code_and_the_json_say_whether_something_failed(
    status: Status, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda _settings, _port: [Check("x", status, "found", "do this")])
    assert entry.main(["doctor", "--json"]) == code
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] == (code == 0)
    assert report["checks"] == [{"name": "x", "status": status.value, "found": "found", "remedy": "do this"}]
    assert report["environment"]["cores"] >= 1
    assert entry.main(["doctor"]) == code
    assert "-> do this" in capsys.readouterr().out


def test_the_doctor_says_what_is_wrong_with_its_own_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["doctor", "--set", "threads=99"]) == 2
    assert "threads" in capsys.readouterr().err


def test_the_doctor_finds_this_installation_sound() -> None:
    """The whole examination for real; the port and the machine's room are other tests' business."""
    checks = {c.name: c for c in doctor.examine(Settings())}
    failed = {n: c for n, c in checks.items() if c.status is Status.FAIL and not n.startswith(("port", "disk", "mem"))}
    assert not failed
    assert {"python", "packages", "imports", "transport", "cores", "browser for the bench"} <= checks.keys()


def test_the_pins_of_the_registry_are_those_of_the_requirements() -> None:
    """What warm-up fetches, what `make setup` installs and what a row tells a user to install are the same wheels."""
    named = ("constraints.txt", "requirements.txt", "requirements-weights.txt")
    wanted = {name.lower(): pin for file in named for name, pin in doctor.pins(ROOT / file).items()}
    chosen = Settings()
    default = {chosen.vad, chosen.turn_model, chosen.asr, chosen.llm, chosen.tts}
    for row in rows():
        for pin in (*row.packages, *(w.pin for w in row.weights)):
            name, _, version = pin.partition("==")
            # What only a chosen engine needs may be left to its own install line, but never at two versions.
            assert wanted.get(name.lower(), None if row.name in default else version) == version, f"{row.name}: {pin}"


def test_nothing_is_pinned_twice_and_torchaudio_never() -> None:
    files = ["requirements.txt", "requirements-dev.txt", "requirements-weights.txt", "constraints.txt"]
    seen: dict[str, str] = {}
    for file in files:
        for name in doctor.pins(ROOT / file):
            assert name not in seen, f"{name} is pinned in {seen.get(name)} and {file}"
            seen[name] = file
    assert "torchaudio" not in seen
    assert "streamlit" in seen
