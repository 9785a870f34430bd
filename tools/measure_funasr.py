"""What FunASR costs here: its import, loading, a window of speech, a pause and the copy of a visitor's cache.

    python -m tools.measure_funasr               tiny models
    python -m tools.measure_funasr --published   Paraformer in its published shape too, with random weights: 0.9 GB on
                                                 disk for a moment, about 3 GB of memory

Random weights cost what trained ones do, but for the number of tokens that the sound gives. Prints JSON.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.engines import funasr_ground as ground
from pipeline.engines.fsmn_vad import FsmnVad
from pipeline.engines.paraformer import ParaformerHearing, Punctuation, Writer
from pipeline.engines.registry import create
from pipeline.errors import Code
from pipeline.ports import EngineOptions
from pipeline.settings import Settings
from tests.tiny import funasr as tiny

WINDOW = 9600  # samples of a "0,10,5" window
WINDOWS = 20
PUBLISHED: dict[str, Any] = {"width": 512, "heads": 4, "units": 2048, "blocks": (50, 16)}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds, and what came of it."""
    began = time.perf_counter()
    made = work()
    return (time.perf_counter() - began) * 1e3, made


def spread(ms: list[float]) -> dict[str, float]:
    return {"median_ms": round(statistics.median(ms), 2), "max_ms": round(max(ms), 2), "n": len(ms)}


def writing(writer: Writer, punctuation: Punctuation) -> dict[str, Any]:
    """One utterance of 12 s: each window's partial, then a pause of it, then the copy alone."""
    hearing = ParaformerHearing(writer, punctuation, "")
    said = tiny.syllables(WINDOWS * WINDOW / 16_000, seed=5)
    partials, pauses, copies = list[float](), list[float](), list[float]()
    for at in range(0, said.size, WINDOW):
        hearing.feed(said[at : at + WINDOW])
        partials.append(timed(hearing.partial)[0])
        copies.append(timed(lambda: copy.deepcopy(hearing._cache))[0])
        pauses.append(timed(hearing.settled)[0])
    return {
        "window": spread(partials[1:]),  # the first has nothing to look back at
        "pause": spread(pauses[1:]),
        "cache_copy": spread(copies[1:]),
        "cache_mb": round(held(hearing._cache) / 1e6, 2),
    }


def listening(vad: FsmnVad) -> dict[str, float]:
    """What a frame costs, in the caller's thread."""
    stream, said = vad.stream(), tiny.syllables(10.0, seed=5)
    frames = [said[at : at + vad.frame_samples] for at in range(0, said.size - vad.frame_samples, vad.frame_samples)]
    return spread([timed(lambda f=frame: stream.probability(f))[0] for frame in frames])  # type: ignore[misc]


def held(cache: Any) -> int:
    """Bytes of the tensors in it."""
    import torch

    if torch.is_tensor(cache):
        return int(cache.untyped_storage().nbytes())
    inner = cache.values() if isinstance(cache, dict) else cache if isinstance(cache, list | tuple) else ()
    return sum(held(value) for value in inner)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--published", action="store_true", help="Paraformer in its published shape too")
    published = parser.parse_args().published
    found: dict[str, Any] = {"import_s": round(timed(ground.library)[0] / 1e3, 2), "load_ms": {}}
    settings = Settings(device="cpu")
    with tempfile.TemporaryDirectory() as scratch:
        made: dict[str, Any] = {}
        for (kind, name), build in tiny.OPTIONS.items():
            options = build(Path(scratch) / name)
            ms, made[name] = timed(lambda k=kind, n=name, o=options: create(k, n, o))  # type: ignore[misc, call-overload]
            found["load_ms"][name] = round(ms, 1)
        paraformer = made["paraformer"]
        paraformer.warm_up()
        found["vad_frame_30_ms"] = listening(made["fsmn-vad"])
        found["tiny"] = writing(paraformer._writer, paraformer._best)
        if published:
            folder = tiny.paraformer(Path(scratch) / "published", **PUBLISHED)
            options = EngineOptions(models=folder.parent, settings=settings)
            ms, model = timed(lambda: ground.load(folder, options, Code.ASR_FAILED))
            found["load_ms"]["paraformer, published shape"] = round(ms, 1)
            found["published"] = writing(Writer(model, (0, 10, 5)), paraformer._best)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
