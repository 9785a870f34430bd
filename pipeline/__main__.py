"""`python -m pipeline COMMAND`: the bench, the sweep, the downloads, the doctor and the table of settings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from pipeline.settings import settings_table


def _bench(args: list[str]) -> int:
    from pipeline.bench.cli import main

    return main(args)


def _sweep(args: list[str]) -> int:
    from pipeline.bench.sweep import main

    return main(args)


def _doctor(args: list[str]) -> int:
    from pipeline.doctor import main

    return main(args)


def _download(args: list[str]) -> int:
    from pipeline.download import main

    return main(args)


def _settings(args: list[str]) -> int:
    from pipeline.cli import parser_with_set

    parser = parser_with_set("python -m pipeline settings", "Prints the table of settings, as README has it.")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the table")
    print(settings_table(parser.parse_args(args).lang))
    return 0


COMMANDS: dict[str, tuple[Callable[[list[str]], int], str]] = {
    "bench": (_bench, "recorded callers through a session, in real time: a table and a JSON report"),
    "sweep": (_sweep, "the bench over a grid of settings: false cut-ins against latency, on one chart"),
    "doctor": (_doctor, "what is wrong with this machine or installation, with a remedy for each"),
    "download": (_download, "models from the hub, listed or fetched: checked, and resumed where it was interrupted"),
    "settings": (_settings, "the table of settings, as README has it"),
}


def main(args: list[str] | None = None) -> int:
    listed = "\n".join(f"  {name:<10} {about}" for name, (_, about) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="python -m pipeline",
        description="Turnaround: real-time voice dialogue whose every millisecond is on screen.",
        epilog=f"commands:\n{listed}\n\n`python -m pipeline COMMAND --help` tells more, and lists the settings.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of those below")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="what the command takes")
    given = parser.parse_args(args)
    try:
        return COMMANDS[given.command][0](given.rest)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `| head` has read enough
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
