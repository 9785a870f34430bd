"""Models from a hub: a real client against a hub on loopback that is slow, damaged, or not there."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline import __main__ as entry
from pipeline import download, stock
from pipeline.clock import SystemClock
from pipeline.engines import fetch as fetching
from pipeline.engines.fetch import Phase, Step, fetch
from pipeline.engines.hub import MANIFEST, HubModel, Presence, locate_model, part_of, presence_of
from pipeline.engines.row import Kind, Row
from pipeline.errors import Code, EngineError, TurnaroundError
from pipeline.ports import EngineOptions
from pipeline.settings import Settings
from tests.tiny.hub import Repository, TinyHub, served

SAYS_SO_WITHIN_S = 3.0
MODEL = HubModel("tiny", "org/tiny", "v1", "MIT", ("zh",), 200_000, ("*.pt", "conf/*"))
FILES = {"model.pt": os.urandom(200_000), "conf/a.yaml": b"a: 1\n", "README.md": b"# not wanted"}
LISTED = next(iter(stock.all_models().values()))  # one that the command knows


@pytest.fixture
def hub() -> Iterator[TinyHub]:
    with TinyHub() as made:
        yield made


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def code_of(call: Callable[[], object]) -> tuple[Code, str]:
    """The error's code and its one line; it must say what to do."""
    with pytest.raises(TurnaroundError) as raised:
        call()
    assert raised.value.remedy
    return raised.value.code, str(raised.value)


def options(models: Path) -> EngineOptions:
    return EngineOptions(models=models)


def test_a_model_arrives_whole_and_is_found(hub: TinyHub, tmp_path: Path) -> None:
    served_files = hub.put("org/tiny", FILES)
    steps: list[Step] = []
    folder = fetch(MODEL, tmp_path, hub.url, steps.append)
    assert locate_model(MODEL, options(tmp_path)) == folder
    assert (folder / "model.pt").read_bytes() == FILES["model.pt"]
    assert not (folder / "README.md").exists()
    wanted = len(FILES["model.pt"]) + len(FILES["conf/a.yaml"])
    assert (steps[-1].phase, steps[-1].done, steps[-1].total) == (Phase.FETCHING, wanted, wanted)
    assert [s.done for s in steps] == sorted(s.done for s in steps)
    listed = {f["path"] for f in json.loads((folder / MANIFEST).read_text())["files"]}
    assert listed == {"model.pt", "conf/a.yaml"}
    assert {a.file for a in served_files.asked} == listed


def test_a_whole_model_is_checked_and_not_fetched_again_even_without_a_hub(hub: TinyHub, tmp_path: Path) -> None:
    hub.put("org/tiny", FILES)
    fetch(MODEL, tmp_path, hub.url)
    steps: list[Step] = []
    fetch(MODEL, tmp_path, "http://127.0.0.1:9", steps.append)
    assert {s.phase for s in steps} == {Phase.CHECKING}


def test_only_what_is_damaged_is_fetched_again(hub: TinyHub, tmp_path: Path) -> None:
    repository = hub.put("org/tiny", FILES)
    folder = fetch(MODEL, tmp_path, hub.url)
    (folder / "conf" / "a.yaml").write_bytes(b"a: 1")
    code, line = code_of(lambda: locate_model(MODEL, options(tmp_path)))
    assert code is Code.WEIGHTS_CORRUPT
    assert "conf/a.yaml" in line
    assert "pipeline download tiny" in line
    repository.asked.clear()
    fetch(MODEL, tmp_path, hub.url)
    assert [a.file for a in repository.asked] == ["conf/a.yaml"]
    assert presence_of(MODEL, tmp_path) is Presence.WHOLE


def test_a_file_of_the_right_size_with_another_content_is_fetched_again(hub: TinyHub, tmp_path: Path) -> None:
    repository = hub.put("org/tiny", FILES)
    folder = fetch(MODEL, tmp_path, hub.url)
    (folder / "model.pt").write_bytes(bytes(200_000))
    repository.asked.clear()
    fetch(MODEL, tmp_path, hub.url)
    assert [a.file for a in repository.asked] == ["model.pt"]
    assert (folder / "model.pt").read_bytes() == FILES["model.pt"]


def test_a_folder_that_was_put_there_by_hand_is_taken(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    assert code_of(lambda: locate_model(MODEL, options(tmp_path)))[0] is Code.WEIGHTS_MISSING
    (tmp_path / "tiny" / "model.pt").write_bytes(b"x")
    assert locate_model(MODEL, options(tmp_path)) == tmp_path / "tiny"
    (tmp_path / "tiny" / "more.pt.incomplete").write_bytes(b"x")
    assert code_of(lambda: locate_model(MODEL, options(tmp_path)))[0] is Code.WEIGHTS_MISSING


def test_a_list_of_files_that_cannot_be_read_counts_as_damage(hub: TinyHub, tmp_path: Path) -> None:
    hub.put("org/tiny", FILES)
    (fetch(MODEL, tmp_path, hub.url) / MANIFEST).write_text("{")
    assert code_of(lambda: locate_model(MODEL, options(tmp_path)))[0] is Code.WEIGHTS_CORRUPT
    fetch(MODEL, tmp_path, hub.url)
    assert presence_of(MODEL, tmp_path) is Presence.WHOLE


# -- what goes wrong


def test_a_file_that_is_not_what_was_listed_is_refused(hub: TinyHub, tmp_path: Path) -> None:
    hub.put("org/tiny", FILES, damaged={"conf/a.yaml"})
    code, line = code_of(lambda: fetch(MODEL, tmp_path, hub.url))
    assert code is Code.WEIGHTS_CORRUPT
    assert "a.yaml" in line
    assert not (tmp_path / "tiny").exists()
    code, line = code_of(lambda: locate_model(MODEL, options(tmp_path)))
    assert code is Code.WEIGHTS_MISSING
    assert "only in part" in line


@pytest.mark.parametrize("path", ["../evil.pt", "/etc/evil.pt", "a/../../evil.pt", "a\\evil.pt"])
def test_a_hub_that_lists_a_file_outside_the_folder_is_refused(hub: TinyHub, tmp_path: Path, path: str) -> None:
    repository = hub.put("org/tiny", {path: b"evil"})
    assert code_of(lambda: fetch(replace(MODEL, patterns=()), tmp_path / "m", hub.url))[0] is Code.WEIGHTS_CORRUPT
    assert repository.asked == []


def test_without_a_network_it_is_said_at_once(tmp_path: Path) -> None:
    clock = SystemClock()
    began = clock.now()
    code, line = code_of(lambda: fetch(MODEL, tmp_path, "http://127.0.0.1:9"))
    assert code is Code.NETWORK
    assert "127.0.0.1:9" in line
    assert clock.now() - began < SAYS_SO_WITHIN_S


def test_a_hub_that_never_answers_a_connection_is_given_up_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = threading.Event()
    monkeypatch.setattr(fetching, "REACHES_WITHIN_S", 0.1)
    monkeypatch.setattr(fetching.socket, "create_connection", lambda *_: silent.wait(20) and socket.socket())
    assert code_of(lambda: fetch(MODEL, tmp_path, "http://127.0.0.1:9"))[0] is Code.NETWORK
    silent.set()


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ftp://127.0.0.1"])
def test_what_is_no_address_is_said(tmp_path: Path, address: str) -> None:
    assert code_of(lambda: fetch(MODEL, tmp_path, address))[0] is Code.NETWORK


def test_a_model_that_the_hub_does_not_have(hub: TinyHub, tmp_path: Path) -> None:
    assert code_of(lambda: fetch(MODEL, tmp_path, hub.url))[0] is Code.UNKNOWN_MODEL
    hub.put("org/tiny", {"other.bin": b"x"})
    assert code_of(lambda: fetch(MODEL, tmp_path, hub.url))[0] is Code.UNKNOWN_MODEL


def test_what_does_not_fit_is_refused_before_the_first_byte(
    hub: TinyHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = hub.put("org/tiny", FILES)
    small = shutil._ntuple_diskusage(10**9, 10**9, fetching.SPARE + 100_000)
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda _path: small)
    code, line = code_of(lambda: fetch(MODEL, tmp_path, hub.url))
    assert code is Code.DISK_FULL
    assert str(tmp_path) in line
    assert repository.asked == []


def test_a_disk_that_fills_up_meanwhile_is_said(hub: TinyHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from modelscope_hub import _download

    hub.put("org/tiny", FILES)

    def full(*given: Any, **more: Any) -> Any:
        if "model.pt" in str(given[0]):
            raise OSError(errno.ENOSPC, "No space left on device")
        return open(*given, **more)

    monkeypatch.setattr(_download, "open", full, raising=False)
    assert code_of(lambda: fetch(MODEL, tmp_path, hub.url))[0] is Code.DISK_FULL
    monkeypatch.undo()
    fetch(MODEL, tmp_path, hub.url)


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert code_of(lambda: fetch(MODEL, tmp_path / "file" / "models"))[0] is Code.WEIGHTS_MISSING


# -- interrupted, and two at once


class Stop(Exception):
    """Somebody does not want it any more."""


def test_a_report_that_raises_stops_the_download_and_the_next_one_goes_on(hub: TinyHub, tmp_path: Path) -> None:
    repository = hub.put("org/tiny", FILES, bytes_per_s=400_000)

    def stop(step: Step) -> None:
        if step.done > 60_000:
            raise Stop

    with pytest.raises(Stop):
        fetch(MODEL, tmp_path, hub.url, stop)
    kept = (part_of(MODEL, tmp_path) / "model.pt.incomplete").stat().st_size
    assert kept > 0
    assert code_of(lambda: locate_model(MODEL, options(tmp_path)))[0] is Code.WEIGHTS_MISSING
    repository.asked.clear()
    steps: list[Step] = []
    folder = fetch(MODEL, tmp_path, hub.url, steps.append)
    assert [a.start for a in repository.asked if a.file == "model.pt"] == [kept]
    assert steps[0].done >= kept
    assert (folder / "model.pt").read_bytes() == FILES["model.pt"]


def test_two_downloads_of_one_model_do_not_collide(hub: TinyHub, tmp_path: Path) -> None:
    repository = hub.put("org/tiny", FILES, bytes_per_s=400_000)
    waited: list[Step] = []
    second = threading.Thread(target=fetch, args=(MODEL, tmp_path, hub.url, waited.append))

    def begin_the_other(_step: Step) -> None:
        if not second.is_alive() and not waited:
            second.start()
            while not waited:
                SystemClock().sleep(0.01)

    fetch(MODEL, tmp_path, hub.url, begin_the_other)
    second.join(20)
    assert not second.is_alive()
    assert waited[0].phase is Phase.WAITING
    assert sorted(a.file for a in repository.asked) == ["conf/a.yaml", "model.pt"]


def _begun(hub: TinyHub, models: Path, *more: str) -> tuple[subprocess.Popen[str], Repository]:
    """The command in a process of its own, some of whose bytes have arrived."""
    repository = hub.put(LISTED.id, served(LISTED, 400_000), bytes_per_s=200_000)
    command = [sys.executable, "-m", "pipeline", "download", LISTED.name, "--dir", str(models)]
    process = subprocess.Popen(
        [*command, "--endpoint", hub.url, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a shell's "&" has it ignored
    )
    clock = SystemClock()
    until = clock.now() + 60
    while sum(a.sent for a in repository.asked) < 50_000:
        assert process.poll() is None, process.communicate()
        assert clock.now() < until
        clock.sleep(0.02)
    return process, repository


@pytest.mark.engines
def test_a_killed_download_goes_on_where_it_was(hub: TinyHub, tmp_path: Path) -> None:
    process, repository = _begun(hub, tmp_path)
    process.kill()
    process.communicate()
    assert presence_of(LISTED, tmp_path) is Presence.HALF
    left = sum(f.stat().st_size for f in part_of(LISTED, tmp_path).rglob("*.incomplete"))
    assert left > 0
    repository.asked.clear()
    folder = fetch(LISTED, tmp_path, hub.url)
    assert left in [a.start for a in repository.asked]
    assert all((folder / name).read_bytes() == content for name, content in repository.files.items())


@pytest.mark.engines
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_says_so_and_ends_with_130(hub: TinyHub, tmp_path: Path, how: signal.Signals) -> None:
    process, _repository = _begun(hub, tmp_path, "--json")
    process.send_signal(how)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "goes on from there" in err
    steps = [json.loads(line) for line in out.splitlines()]
    assert steps[0]["model"] == LISTED.name
    assert steps[-1]["total"] == 400_000 + 5 * (len(served(LISTED, 1)) - 1)


# -- the command


def test_the_list_tells_what_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["download", "--list", "--json", "--dir", str(tmp_path)]) == 0
    listed = {m["name"]: m for m in json.loads(capsys.readouterr().out)}
    assert listed[LISTED.name]["present"] == "absent"
    assert listed[LISTED.name]["bytes"] == LISTED.size
    assert listed["moonshine"]["present"] in ("whole", "absent")
    (tmp_path / LISTED.name).mkdir()
    (tmp_path / LISTED.name / "model.pt").write_bytes(b"x")
    assert entry.main(["download", "--dir", str(tmp_path)]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{LISTED.name} "))
    assert "whole" in line
    assert LISTED.licence in line


def test_a_command_downloads_and_says_where(hub: TinyHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub.put(LISTED.id, served(LISTED, 1000))
    command = ["download", LISTED.name, "--dir", str(tmp_path), "--endpoint", hub.url]
    assert entry.main(command) == 0
    assert str(tmp_path / LISTED.name) in capsys.readouterr().out
    assert entry.main([*command, "--json"]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last == {"model": LISTED.name, "folder": str(tmp_path / LISTED.name)}


@pytest.mark.parametrize(
    ("names", "code"), [(["nosuch"], Code.UNKNOWN_MODEL), ([LISTED.name], Code.NETWORK)], ids=["unknown", "no network"]
)
def test_a_failed_command_says_the_code_and_ends_with_1(
    names: list[str], code: Code, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["download", *names, "--dir", str(tmp_path), "--endpoint", "http://127.0.0.1:9", "--json"]
    assert entry.main(command) == 1
    said = capsys.readouterr()
    assert json.loads(said.out.splitlines()[-1])["code"] == code
    assert code in said.err
    assert "->" in said.err


def test_an_engine_s_name_is_all_it_needs_and_a_choice_is_the_one_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    models = tuple(replace(MODEL, name=f"tiny-{n}") for n in "abc")
    both = Row(Kind.ASR, "both", "m:f", "MIT", ("en",), (), (), 1.0, "", "", models=models[:2])
    either = Row(Kind.LLM, "either", "m:f", "MIT", ("en",), (), (), 1.0, "", "", models=models, chosen_by="llm_model")
    for module in (stock, download):
        monkeypatch.setattr(module, "rows", lambda: (both, either))
    names = [m.name for m in download.named(["both"], Settings())]
    assert names == ["tiny-a", "tiny-b"]
    assert [m.name for m in download.named(["either"], Settings())] == ["tiny-a"]
    assert [m.name for m in download.named(["either", "tiny-b"], Settings(llm_model="tiny-c"))] == ["tiny-c", "tiny-b"]
    assert code_of(lambda: download.named(["neither"], Settings()))[0] is Code.UNKNOWN_MODEL


def test_sizes_are_for_people() -> None:
    assert [download.size(n) for n in (5, 1_750_000, 5_450_000_000)] == ["0 kB", "1.8 MB", "5.45 GB"]


def test_errors_of_several_files_tell_the_one_that_says_what_to_do(tmp_path: Path) -> None:
    from modelscope_hub.errors import FileDownloadError, NetworkError

    from pipeline.engines.hub_errors import in_words

    failed = {"a": NetworkError("gone"), "b": OSError(errno.ENOSPC, "full")}

    def fails() -> None:
        with in_words(MODEL, tmp_path):
            raise FileDownloadError("2 of 2", failed_files=failed, total=2, output_dir=tmp_path)

    with pytest.raises(EngineError) as raised:
        fails()
    assert raised.value.code is Code.DISK_FULL
