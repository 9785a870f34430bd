"""How soon the reply falls silent when the caller speaks over it: at the server, and in the page's audio element.

Counted from the interrupting clip's true start of speech, in its manifest, to the last sound of the interrupted reply.
Two moments are told apart: `soon`, at the reply's first sound (a wrong cut-in: the caller had not finished), and
`later`, when the endpoint lies long enough behind for the voice to count as a new turn's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.audio import read_clip
from pipeline.bench.callers import Caller
from pipeline.bench.run import Visit
from pipeline.browser.recording import Pcm, Recording
from pipeline.endpoint import RECENT_MS
from pipeline.loopback import Loopback
from pipeline.playout import SOUNDING
from pipeline.ports import PLAYOUT_RATE
from pipeline.settings import Settings
from pipeline.timeline import Mark, Percentiles

QUIET_S = 0.6  # so long without a sound is the end of the reply and no gap between two words of it
HEARD_S = 0.15  # the reply must have sounded this shortly before the voice, else there was nothing to interrupt
PATIENCE_S = 12.0
POLL_S = 0.005
INTERRUPT_AFTER_S = 1.2  # in the browser, from the end of the question to the interrupting clip
REST_S = 9.0
SHORTEST_S = 1.0  # of an interrupting clip: a "yes" is over before it can be seen to have silenced anything
SOON, LATER, PAGE = "soon", "later", "page"


@dataclass(frozen=True, slots=True)
class Interruption:
    file: str  # the clip whose reply was interrupted
    by: str
    moment: str  # SOON, LATER or PAGE
    silence_ms: float | None  # true start of the voice -> last sound of the reply; None: nothing sounded then


def at_server(open_visit: Callable[[], Visit], callers: Sequence[Caller], rounds: int) -> Iterator[Interruption]:
    """Each caller is answered, and interrupted by the next one, at both moments in turn."""
    for number in range(rounds):
        for index, (caller, other) in enumerate(pairs(callers)):
            moment = (SOON, LATER)[(index + number) % 2]
            found = Interruption(caller.file, other.file, moment, _interrupt(open_visit(), caller, other, moment))
            print(f"{found.file} by {found.by}, {moment}: {found.silence_ms} ms", file=sys.stderr, flush=True)
            yield found


def pairs(callers: Sequence[Caller]) -> list[tuple[Caller, Caller]]:
    """Each caller with the next one who speaks long enough to interrupt."""

    def lasts(c: Caller) -> bool:
        return c.speech_end_s - c.speech_start_s >= SHORTEST_S

    following = [(c, [*callers[i + 1 :], *callers[: i + 1]]) for i, c in enumerate(callers)]
    return [(c, other) for c, others in following if (other := next(filter(lasts, others), None)) is not None]


def _interrupt(visit: Visit, caller: Caller, other: Caller, moment: str) -> float | None:
    line = Loopback(visit, read_clip(caller.path), floor_dbfs=caller.noise_dbfs).start()
    try:
        if not _wait_for(visit, line, moment):
            return None
        onset = line.interject(read_clip(other.path)) + other.speech_start_s
        visit.clock.sleep(onset - visit.clock.now() + 2 * QUIET_S)
        played = line.played()
        return silence_ms(played.reply, PLAYOUT_RATE, onset - played.started_at, SOUNDING)
    finally:
        line.hang_up()
        line.join(2.0)
        visit.close()


def _wait_for(visit: Visit, line: Loopback, moment: str) -> bool:
    """Until the reply sounds, and as much longer as `moment` wants; False when it does not come."""
    until = visit.clock.now() + PATIENCE_S
    while visit.clock.now() < until:
        marks = [t.timeline.marks for t in visit.snapshot().turns]
        if marks and Mark.RELEASED in marks[-1]:
            after = RECENT_MS / 1e3 if moment == LATER else 0.0
            visit.clock.sleep(marks[-1][Mark.ENDPOINT] + after - visit.clock.now())
            return True
        visit.clock.sleep(POLL_S)
    return False


def silence_ms(pcm: Pcm, rate: int, onset_s: float, threshold: int) -> float | None:
    """From `onset_s` into `pcm` to the last sound before QUIET_S of silence; None when nothing sounded at the onset."""
    start = round(onset_s * rate)
    loud = np.flatnonzero(np.abs(pcm.astype(np.int32)) > threshold)
    if not ((loud >= start - HEARD_S * rate) & (loud < start)).any():
        return None
    after = np.concatenate(([start], loud[loud >= start]))
    gaps = np.flatnonzero(np.diff(after) > QUIET_S * rate)
    last = after[gaps[0]] if gaps.size else after[-1]
    return round(float(last - start) / rate * 1e3, 1)


def in_page(callers: Sequence[Caller], rounds: int, settings: Settings) -> list[Interruption]:
    """The same through Chromium, at what its audio element plays. TurnaroundError as in bench.page."""
    from pipeline.bench import page
    from pipeline.browser.mic import MicClip, find_spoken

    asked = pairs(callers) * rounds
    clips = [MicClip(read_clip(c.path), c.speech_end_s) for pair in asked for c in pair]
    heard = page.call(clips, settings, serial=False, gap_s=[INTERRUPT_AFTER_S, REST_S] * len(asked))
    places = find_spoken(heard.capture.mic, heard.wav)
    found = []
    for index, (caller, other) in enumerate(asked):
        place = places[2 * index + 1]
        ms = None
        if place is not None and place.score >= page.TRUSTED:
            onset = place.ended_at - (other.speech_end_s - other.speech_start_s)
            ms = _silence_heard(heard.capture.ear, onset)
        found.append(Interruption(caller.file, other.file, PAGE, ms))
    return found


def _silence_heard(ear: Recording, onset: float) -> float | None:
    first = ear.sample_at(onset - 1.0)
    return silence_ms(ear.pcm[first:], ear.rate, (ear.sample_at(onset) - first) / ear.rate, round(0.01 * 32767))


def report(found: Sequence[Interruption]) -> dict[str, Any]:
    """Distributions by moment, and how many found nothing to interrupt."""
    out: dict[str, Any] = {}
    for moment in dict.fromkeys(f.moment for f in found):
        these = [f.silence_ms for f in found if f.moment == moment]
        measured = Percentiles.of(ms for ms in these if ms is not None)
        out[moment] = {
            "silence_ms": measured.as_dict() if measured else None,
            "nothing_to_interrupt": sum(ms is None for ms in these),
        }
    return out


def table(found: Sequence[Interruption]) -> str:
    lines = [
        "the caller speaks over the reply: true start of the voice -> silence, ms",
        "           p50     p95     p99",
    ]
    for moment, figures in report(found).items():
        ms = figures["silence_ms"]
        values = "".join(f"{ms[q]:8.0f}" for q in ("p50", "p95", "p99")) if ms else "  nothing measured"
        count = ms["n"] if ms else 0
        lines.append(
            f"  {moment:<6}{values}   {count} measured, {figures['nothing_to_interrupt']} with nothing to interrupt"
        )
    return "\n".join(lines)
