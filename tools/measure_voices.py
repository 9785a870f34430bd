"""What switching a voice's manner costs through the CosyVoice engine, with and without preparing it at warm-up.

    python tools/measure_voices.py [--front-end-ms 800] [--runs 40] [--json FILE]

The model is the tests' stand-in: its front end (the recording's tokens and features) only takes the time that
--front-end-ms says, and its speech costs nothing. So the first two figures show what preparing saves of a front end as
slow as that; what is measured for real is the engine's own work: the time to the first piece less the stand-in's
own, called bare. Where COSYVOICE_HOME and the weights are here, --real uses them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pipeline.clock import SystemClock  # noqa: E402
from pipeline.engines.registry import Kind, create  # noqa: E402
from pipeline.manners import MANNERS  # noqa: E402
from pipeline.ports import Style, never  # noqa: E402
from pipeline.surroundings import engine_options  # noqa: E402
from pipeline.timeline import Percentiles  # noqa: E402

TEXT = "您好，请问有什么可以帮您的吗？"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--front-end-ms", type=float, default=800.0, help="what the stand-in's front end takes")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--real", action="store_true", help="the real model, in place of the stand-in")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = measure(Path(folder), given.front_end_ms, given.runs, given.real)
    print(json.dumps(made, ensure_ascii=False, indent=2))
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(made, ensure_ascii=False, indent=2) + "\n", "utf-8")
    return 0


def measure(folder: Path, front_end_ms: float, runs: int, real: bool) -> dict[str, Any]:
    """Milliseconds to the first piece of a phrase, by what had been prepared."""
    all_manners = list(MANNERS)
    prepared, cold = all_manners[: len(all_manners) // 2], all_manners[len(all_manners) // 2 :]
    sys.setswitchinterval(0.0005)  # as the app does: the stand-in thinks in Python, the real model does not
    tts = _engine(folder, front_end_ms, ",".join(prepared), real)
    tts.warm_up()
    clock, own = SystemClock(), Own(tts)

    def first(manner: str) -> float:
        while tts._mended._turn.locked():  # the phrase before is being cleared up
            clock.sleep(0.002)
        began = own.began = clock.now()
        pieces = tts.speak(TEXT, Style(manner=manner), never)
        next(pieces)
        ended = own.ended = clock.now()
        pieces.close()
        return (ended - began) * 1e3

    def several(manners: list[str]) -> tuple[list[float], list[float]]:
        spent, itself = [], []
        for manner in manners:
            spent.append(first(manner))
            itself.append(own.spent_ms())
        return spent, itself

    plain, _ = several([""] * runs)
    switched, itself = several([prepared[n % len(prepared)] for n in range(runs)])
    unprepared, _ = several(cold)
    return {
        "model": "real" if real else f"stand-in, front end {front_end_ms:g} ms",
        "same_manner_ms": _figures(plain),
        "switch_prepared_ms": _figures(switched),
        "switch_not_prepared_ms": _figures(unprepared),
        "engine_itself_ms": _figures(itself),
    }


class Own:
    """When the model was asked and when it gave its first chunk: the rest of the time is the engine's."""

    def __init__(self, tts: Any) -> None:
        self._clock = SystemClock()
        self.began = self.ended = self._asked = self._given = 0.0
        upstream = tts._mended._upstream
        for name in ("inference_zero_shot", "inference_instruct2"):
            setattr(upstream, name, self._asking(getattr(upstream, name)))
        upstream.model.token2wav = self._giving(upstream.model.token2wav)

    def spent_ms(self) -> float:
        return (self._asked - self.began + self.ended - self._given) * 1e3

    def _asking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            self._asked, self._given = self._clock.now(), 0.0
            return original(*args, **more)

        return call

    def _giving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            out = original(*args, **more)
            self._given = self._given or self._clock.now()
            return out

        return call


def _engine(folder: Path, front_end_ms: float, manners: str, real: bool) -> Any:
    from pipeline.settings import Settings

    if real:
        return create(Kind.TTS, "cosyvoice3", engine_options(Settings(tts="cosyvoice3", manners=manners)))
    from tests.tiny.voices import cosyvoice3

    return create(Kind.TTS, "cosyvoice3", cosyvoice3(folder, {"front_end_ms": front_end_ms}, manners=manners))


def _figures(values: list[float]) -> dict[str, float]:
    found = Percentiles.of(values)
    assert found is not None
    return found.as_dict()


if __name__ == "__main__":
    sys.exit(main())
