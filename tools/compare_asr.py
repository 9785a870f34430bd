"""Compare ways of running Moonshine tiny-en for a live transcript: a partial every 300 ms on audio that grows.

    python tools/compare_asr.py prepare DIR    write the shipped .ort files out as .onnx: same/ and float/
    python tools/compare_asr.py measure        every way of cutting the audio, with the shipped files
    python tools/compare_asr.py measure --weights DIR/float --way shipped --threads 1 --json out.json

`prepare` needs the package onnx, which is no part of Turnaround's requirements. Audio: the English callers, and long
clips made by joining them, their pauses cut to 150 ms.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from pipeline.bench.words import errors, pooled  # noqa: E402
from pipeline.engines import moonshine, ort  # noqa: E402
from pipeline.engines.moonshine import Decoder, MoonshineHearing, read_pieces  # noqa: E402
from pipeline.engines.registry import Kind, row  # noqa: E402
from pipeline.engines.weights import locate_all  # noqa: E402
from pipeline.ports import CAPTURE_RATE, EngineOptions, Samples  # noqa: E402
from pipeline.replies import CALLERS  # noqa: E402

ONNX = "onnx==1.23.2"
STEP = 3 * CAPTURE_RATE // 10  # a partial every 300 ms, as partial_every_ms has it
LONG_S = 22.0
LENGTHS = (2, 5, 10, 20)  # seconds of audio at which the cost of a partial is reported, give or take one


class AtPauses(MoonshineHearing):
    """Settles what lies before a pause of 250 ms, once there are two seconds of it; else as shipped."""

    def partial(self) -> str:
        quiet, least = CAPTURE_RATE // 4, 2 * CAPTURE_RATE
        block = CAPTURE_RATE // 100
        levels = np.square(self._audio[: self._size // block * block].reshape(-1, block)).mean(axis=1)
        low = levels < max(1e-9, levels.max(initial=0.0) * 10 ** (-35 / 10))
        run = 0
        for at, silent in enumerate(low[:-10]):  # the last 100 ms may still become a word
            run = run + 1 if silent else 0
            if run * block >= quiet and (at + 1) * block >= least:
                self._settle((at + 1) * block - run * block // 2)
                break
        return super().partial()


class Forgetful(MoonshineHearing):
    """As shipped, but the last partial is not offered to the decoder as a guess."""

    def partial(self) -> str:
        self._window = moonshine.Decoded()
        return super().partial()


def windows(
    longest: float, cut_from: float, kind: type[MoonshineHearing] = MoonshineHearing
) -> Callable[[Decoder], MoonshineHearing]:
    """`kind` with these window lengths, in seconds."""

    def listen(decoder: Decoder) -> MoonshineHearing:
        moonshine._LONGEST, moonshine._CUT_FROM = int(longest * CAPTURE_RATE), int(cut_from * CAPTURE_RATE)
        return kind(decoder)

    return listen


WAYS = {
    "shipped": windows(12, 6),
    "no-guess": windows(12, 6, Forgetful),
    "whole": windows(1000, 1000),
    "8-s-windows": windows(8, 5),
    "6-s-windows": windows(6, 3),
    "4-s-windows": windows(4, 2),
    "at-pauses": windows(12, 6, AtPauses),
}


def clips() -> list[tuple[Samples, str]]:
    """The English callers, from 0.3 s before their first sound to 0.3 s after the last, and what they say."""
    import soundfile

    found = []
    for clip in json.loads(CALLERS.read_text(encoding="utf-8"))["clips"]:
        if clip["lang"] == "en":
            audio, _ = soundfile.read(CALLERS.parent / clip["file"], dtype="float32")
            start, end = clip["speech_start_s"], clip["speech_end_s"]
            found.append(
                (audio[int(max(0, start - 0.3) * CAPTURE_RATE) : int((end + 0.3) * CAPTURE_RATE)], clip["text"])
            )
    return found


def joined(short: Sequence[tuple[Samples, str]], count: int) -> Iterator[tuple[Samples, str]]:
    """Monologues of 22 s or a little more: callers in a random order that is always the same."""
    order = random.Random(7)
    edge, gap = int(0.3 * CAPTURE_RATE), np.zeros(int(0.15 * CAPTURE_RATE), np.float32)
    for _ in range(count):
        audio, texts = np.zeros(0, np.float32), []
        for samples, text in order.sample(list(short), len(short)):
            audio, texts = np.concatenate([audio, samples[edge:-edge], gap]), [*texts, text]
            if audio.size > LONG_S * CAPTURE_RATE:
                break
        yield np.pad(audio, (edge, edge)), " ".join(texts)


def hear(hearing: MoonshineHearing, audio: Samples) -> tuple[str, list[tuple[float, float, float]]]:
    """The final text; for each partial the seconds of audio, the milliseconds it took, and those of CPU."""
    costs = []
    for start in range(0, audio.size, STEP):
        hearing.feed(audio[start : start + STEP])
        begun, cpu = time.perf_counter(), time.process_time()
        hearing.partial()
        took = 1e3 * (time.perf_counter() - begun), 1e3 * (time.process_time() - cpu)
        costs.append((min(start + STEP, audio.size) / CAPTURE_RATE, *took))
    return hearing.finish(), costs


def measure(listen: Callable[[Decoder], MoonshineHearing], decoder: Decoder, long: int) -> dict[str, Any]:
    """One way over all clips, short ones first."""
    short = clips()
    found, costs, said = dict[str, Any](), list[tuple[float, float, float]](), list[dict[str, str]]()
    for name, group in (("short", short), ("long", list(joined(short, long)))):
        wrong, cpu = [], time.process_time()
        for audio, text in group:
            heard, taken = hear(listen(decoder), audio)
            wrong.append(errors(text, heard))
            costs += taken
            said.append({"said": text, "heard": heard})
        found |= {
            f"wer_{name}": round(pooled(wrong) or 0.0, 4),
            f"cpu_s_a_turn_{name}": round((time.process_time() - cpu) / len(group), 2),
        }
    for length in LENGTHS:
        near = [c for c in costs if abs(c[0] - length) <= 1]
        wall, cpu = sorted(c[1] for c in near), sorted(c[2] for c in near)
        middle, tail = len(near) // 2, int(0.95 * len(near))
        found[f"{length}s_p50/p95/cpu_ms"] = f"{wall[middle]:.0f}/{wall[tail]:.0f}/{cpu[middle]:.0f}"
    return found | {"said": said}


def load(weights: Path | None, threads: int) -> Decoder:
    """The shipped files, or encoder.onnx and decoder.onnx out of `weights`."""
    shipped = locate_all(row(Kind.ASR, "moonshine").weights, EngineOptions())
    encoder, decoder = (weights / "encoder.onnx", weights / "decoder.onnx") if weights else shipped[:2]
    return Decoder(*(ort.open_session(path, threads) for path in (encoder, decoder)), read_pieces(shipped[2]))


def prepare(folder: Path) -> None:
    """same/ and float/ below `folder`, each with encoder.onnx and decoder.onnx."""
    import onnx
    import onnxruntime

    for kind in ("same", "float"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    shipped = locate_all(row(Kind.ASR, "moonshine").weights, EngineOptions())
    for name, path in zip(("encoder.onnx", "decoder.onnx"), shipped, strict=False):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.optimized_model_filepath = str(folder / "same" / name)
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        model = onnx.load(folder / "same" / name)
        as_float(model.graph)
        onnx.save(model, folder / "float" / name)
        print(f"{name}: written out")


def as_float(graph: Any, sources: dict[str, str] | None = None, outer: dict[str, Any] | None = None) -> None:
    """Replace each product of 8-bit integers by one of floats, in place, in the branches too."""
    from onnx import AttributeProto, helper, numpy_helper

    weights = {**(outer or {}), **{i.name: i for i in graph.initializer}}
    source = {
        **(sources or {}),
        **{n.output[0]: n.input[0] for n in graph.node if n.op_type == "DynamicQuantizeLinear"},
    }
    made: set[str] = set()
    nodes = []
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                as_float(attribute.g, source, weights)
        if node.op_type not in ("DynamicQuantizeMatMul", "MatMulIntegerToFloat"):
            nodes.append(node)
            continue
        a, b, *rest = node.input
        scale, zero, bias = (rest[1], rest[3], rest[4:]) if node.op_type[0] == "M" else (rest[0], rest[1], rest[2:])
        if b not in made:
            matrix, step, middle = (numpy_helper.to_array(weights[n]).astype(np.float32) for n in (b, scale, zero))
            graph.initializer.append(numpy_helper.from_array((matrix - middle) * step, f"{b}_float"))
            made.add(b)
        product = f"{node.output[0]}_product" if bias and bias[0] else node.output[0]
        nodes.append(helper.make_node("MatMul", [source.get(a, a), f"{b}_float"], [product], name=f"{node.name}_float"))
        if product != node.output[0]:
            nodes.append(helper.make_node("Add", [product, bias[0]], [node.output[0]], name=f"{node.name}_bias"))
    del graph.node[:]
    graph.node.extend(nodes)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "measure"))
    parser.add_argument("folder", type=Path, nargs="?", help="where `prepare` writes, 0.2 GB")
    parser.add_argument("--weights", type=Path, help="a folder that `prepare` made, instead of the shipped files")
    parser.add_argument("--way", action="append", choices=tuple(WAYS), help="measure this one; may be repeated")
    parser.add_argument("--threads", type=int, default=EngineOptions().threads)
    parser.add_argument("--long", type=int, default=4, help="monologues of 22 s")
    parser.add_argument("--json", type=Path, help="write the figures and texts to this file")
    asked = parser.parse_args(argv)
    if asked.what == "prepare":
        if asked.folder is None or importlib.util.find_spec("onnx") is None:
            print(f"prepare takes a folder, and the package onnx: pip install {ONNX}", file=sys.stderr)
            return 2
        prepare(asked.folder)
        return 0
    decoder, found = load(asked.weights, asked.threads), []
    for name in asked.way or WAYS:
        decoder.decode(np.random.default_rng(0).normal(0.0, 0.05, CAPTURE_RATE).astype(np.float32))
        named = {
            "way": name,
            "weights": asked.weights.name if asked.weights else "as shipped",
            "threads": asked.threads,
        }
        found.append(named | measure(WAYS[name], decoder, asked.long))
        names = [n for n in found[0] if n != "said"]
        if len(found) == 1:
            print("| " + " | ".join(names) + " |\n" + "|---" * len(names) + "|")
        print("| " + " | ".join(str(found[-1][n]) for n in names) + " |", flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
