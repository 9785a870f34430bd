"""What a language model makes of a scenario: `python -m pipeline.replies` asks it every caller's question in text.

Prints each reply, how many hold the fact expected of them, the time to the first token with the prefix warm, the pace
and the memory. No audio: the bench measures whole turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline.clock import Clock, SystemClock
from pipeline.engines.registry import Kind, create
from pipeline.errors import TurnaroundError
from pipeline.facts import holds
from pipeline.ports import EngineOptions, Llm, ReplyLimits, never
from pipeline.scenario import Scenario, load

CALLERS = Path(__file__).resolve().parent.parent / "assets" / "callers" / "manifest.json"


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    fact: str = ""  # "" when no particular fact is expected


@dataclass(frozen=True, slots=True)
class Answer:
    question: str
    reply: str
    fact: str
    held: bool | None  # None: no fact was expected
    first_token_ms: float
    total_ms: float
    deltas: int  # about one a token


def questions(manifest: Path, lang: str) -> list[Question]:
    """The callers' texts in one language, in the manifest's order. OSError, ValueError or KeyError when broken."""
    clips = json.loads(manifest.read_text(encoding="utf-8"))["clips"]
    return [Question(c["text"], c.get("fact") or "") for c in clips if c["lang"] == lang]


def ask(llm: Llm, scenario: Scenario, question: Question, clock: Clock, limits: ReplyLimits) -> Answer:
    """One reply, timed. The prefix is warmed first, outside the timing."""
    llm.warm(scenario.prefix())
    start, first, deltas = clock.now(), None, []
    for delta in llm.reply(scenario.messages((), question.text), never, limits):
        first = clock.now() if first is None else first
        deltas.append(delta)
    end = clock.now()
    reply = "".join(deltas).strip()
    return Answer(
        question=question.text,
        reply=reply,
        fact=question.fact,
        held=holds(question.fact, reply) if question.fact else None,
        first_token_ms=1e3 * ((first or end) - start),
        total_ms=1e3 * (end - start),
        deltas=len(deltas),
    )


def summary(answers: Sequence[Answer]) -> dict[str, float | int | None]:
    """The figures under the table; percentiles of the first token in ms, pace in pieces a second after it."""
    firsts = sorted(a.first_token_ms for a in answers)
    judged = [a.held for a in answers if a.held is not None]
    seconds = sum(a.total_ms - a.first_token_ms for a in answers) / 1e3
    return {
        "replies": len(answers),
        "facts_held": sum(judged),
        "facts_expected": len(judged),
        "first_token_p50_ms": round(statistics.median(firsts), 1) if firsts else None,
        "first_token_p95_ms": round(firsts[min(len(firsts) - 1, int(0.95 * len(firsts)))], 1) if firsts else None,
        "tokens_per_s": round(sum(a.deltas - 1 for a in answers if a.deltas) / seconds, 1) if seconds > 0 else None,
        "rss_mb": _rss_mb(),
    }


def _rss_mb() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss / 1e6)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pipeline.replies", description=__doc__)
    parser.add_argument("--callers", type=Path, default=CALLERS, help="a manifest.json of callers")
    parser.add_argument("--scenario", default="shop-en")
    parser.add_argument("--llm", default="smollm2-ort")
    parser.add_argument("--threads", type=int, default=EngineOptions().threads)
    parser.add_argument("--json", type=Path, help="write replies and figures to this file")
    chosen = parser.parse_args(argv)
    try:
        scenario = load(chosen.scenario)
        asked = questions(chosen.callers, scenario.language)
        llm = create(Kind.LLM, chosen.llm, EngineOptions(threads=chosen.threads))
    except TurnaroundError as error:
        print(error, file=sys.stderr)
        return 2
    except (OSError, ValueError, KeyError) as error:
        print(f"{chosen.callers} cannot be used: {error!r}", file=sys.stderr)
        return 2
    llm.warm_up()
    clock, answers = SystemClock(), []
    for question in asked:
        answer = ask(llm, scenario, question, clock, ReplyLimits())
        answers.append(answer)
        mark = {None: "    ", True: "fact", False: "MISS"}[answer.held]
        print(f"{answer.first_token_ms:5.0f} ms {mark}  {answer.question}\n              -> {answer.reply}")
    figures = summary(answers)
    print("\n".join(f"{name:>20}: {value}" for name, value in figures.items()))
    if chosen.json:
        report = {"summary": figures, "replies": [asdict(a) for a in answers]}
        chosen.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
