"""Sets of engines by name: `embedded`, `article`, `hosted`, or a file of one's own. Values in, Settings out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import Code, TurnaroundError
from pipeline.settings import Settings

FILE = Path(__file__).resolve().parent.parent / "assets" / "profiles.toml"
DEFAULT = "embedded"
_BASE = "base"  # the key by which a profile begins with another


def names() -> tuple[str, ...]:
    """The profiles that come with the project."""
    return tuple(_shipped())


def read_profile(asked: str = "") -> Settings:
    """The settings of a profile: the name of one that comes with the project, or the path of a TOML file.

    TurnaroundError UNKNOWN_PROFILE, or BAD_PROFILE for a file that is no TOML or names a setting that does not exist.
    """
    return _settings(asked.strip() or DEFAULT, ())


def _settings(asked: str, before: tuple[str, ...]) -> Settings:
    table, where = _table(asked)
    values = dict(table)
    base = values.pop(_BASE, None)
    if base is not None and (not isinstance(base, str) or base in (asked, *before)):
        raise TurnaroundError(Code.BAD_PROFILE, f"{where}: base = {base!r} leads nowhere", f"known: {_known()}")
    start = _settings(base, (*before, asked)) if base else Settings()
    try:
        return start.changed(**values)
    except ValueError as error:
        raise TurnaroundError(Code.BAD_PROFILE, f"{where}: {error}", "python -m pipeline settings") from None


def _table(asked: str) -> tuple[Mapping[str, Any], str]:
    """The keys of a profile, and where they stand."""
    shipped = _shipped()
    if asked in shipped:
        return shipped[asked], f"profile {asked}"
    path = Path(asked).expanduser()
    if path.suffix == ".toml" or path.is_file():
        return _read(path), str(path)
    raise TurnaroundError(Code.UNKNOWN_PROFILE, f"there is no profile {asked!r}", f"known: {_known()}; or a TOML file")


def _shipped() -> Mapping[str, Mapping[str, Any]]:
    return _read(FILE)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise TurnaroundError(Code.UNKNOWN_PROFILE, f"{path}: {error.strerror}", f"known: {_known(path)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TurnaroundError(Code.BAD_PROFILE, f"{path}: {error}", "mend that line") from None


def _known(unreadable: Path | None = None) -> str:
    return "none" if unreadable == FILE else ", ".join(names())
