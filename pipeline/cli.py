"""What the subcommands of `python -m pipeline` share: --profile, --set, and a help that lists every setting."""

from __future__ import annotations

import argparse
import sys

from pipeline import profiles
from pipeline.errors import TurnaroundError
from pipeline.settings import Settings, Tunable, parse_set, tunables
from pipeline.surroundings import PROFILE, profile_named


def parser_with_set(prog: str, description: str | None) -> argparse.ArgumentParser:
    """A parser that takes `--profile` and `--set NAME=VALUE ...`, and lists the settings below its help."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description=description,
        epilog="settings:\n" + settings_list(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--profile",
        default="",
        metavar="NAME|FILE",
        help=f"settings to begin with: {', '.join(profiles.names())}, or a TOML file (else {PROFILE}, else embedded)",
    )
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", help="settings, listed below"
    )
    return parser


def given_settings(given: argparse.Namespace) -> Settings:
    """The settings of a parsed command line: a profile, changed by --set. ValueError in plain words."""
    try:
        return parse_set(given.set, profiles.read_profile(given.profile or profile_named()))
    except TurnaroundError as error:
        raise ValueError(f"{error.what} ({error.remedy})") from None


def settings_list() -> str:
    """Every setting for a terminal: name, default, range and what it does."""
    return "\n".join(f"  {t.name:<22} {_default(t):<12} {_range(t):<16} {t.help_en}" for t in tunables())


def _default(t: Tunable) -> str:
    value = str(t.default).lower() if isinstance(t.default, bool) else f"{t.default}"
    return f"{value} {t.unit}".rstrip()


def _range(t: Tunable) -> str:
    if t.choices:
        return "|".join(str(c) for c in t.choices)
    if isinstance(t.default, bool):
        return "true|false"
    return f"{t.low:g}..{t.high:g}" if t.low is not None and t.high is not None else ""


def complain(what: str, remedy: str = "") -> None:
    """One failure for the terminal: what happened, then what to do."""
    print(f"{what}\n  -> {remedy}" if remedy else what, file=sys.stderr)
