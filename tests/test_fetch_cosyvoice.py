"""`make cosyvoice`: a checkout with its submodule at a fixed commit, out of repositories on disk; what stops it."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "fetch_cosyvoice.py"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The tool as a module, over two small repositories; git may follow a submodule on disk."""
    for name, value in {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "protocol.file.allow",
        "GIT_CONFIG_VALUE_0": "always",
    }.items():
        monkeypatch.setenv(name, value)
    spec = importlib.util.spec_from_file_location("fetch_cosyvoice", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    matcha, source = tmp_path / "matcha", tmp_path / "source"
    for folder in (matcha, source):
        git(folder, "init", "--quiet")
    (matcha / "matcha").mkdir()
    (matcha / "matcha" / "__init__.py").touch()
    commit(matcha)
    git(source, "submodule", "--quiet", "add", str(matcha), module.SUBMODULE)
    (source / "code.py").touch()
    commit(source)
    monkeypatch.setattr(module, "SOURCE", str(source))
    monkeypatch.setattr(module, "COMMIT", git(source, "rev-parse", "HEAD").strip())
    return module


def git(folder: Path, *args: str) -> str:
    folder.mkdir(exist_ok=True)
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    return subprocess.run(["git", *who, *args], cwd=folder, text=True, capture_output=True, check=True).stdout


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", "one")


def test_the_code_comes_with_its_submodule_at_its_commit(tool: Any, tmp_path: Path) -> None:
    tool.code(tmp_path / "home")
    assert (tmp_path / "home" / "code.py").is_file()
    assert (tmp_path / "home" / tool.SUBMODULE / "matcha" / "__init__.py").is_file()
    assert tool.head(tmp_path / "home") == tool.COMMIT


def test_a_second_run_asks_no_server(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool.code(tmp_path / "home")
    monkeypatch.setattr(tool, "SOURCE", str(tmp_path / "gone"))
    tool.code(tmp_path / "home")


def test_a_run_that_was_interrupted_is_taken_up(tool: Any, tmp_path: Path) -> None:
    git(tmp_path / "home", "init", "--quiet")
    tool.code(tmp_path / "home")
    assert (tmp_path / "home" / tool.SUBMODULE / "matcha").is_dir()


def test_without_a_network_it_stops_with_the_way_out(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "SOURCE", "http://127.0.0.1:9/CosyVoice.git")
    with pytest.raises(tool.Refused, match="COSYVOICE_SOURCE"):
        tool.code(tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_somebody_elses_folder_is_left_alone(tool: Any, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").touch()
    with pytest.raises(tool.Refused, match="another folder"):
        tool.code(tmp_path / "home")
