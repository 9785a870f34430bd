"""The transport alone: beeps into Chromium's microphone, beeps back out of the page, timed on one clock.

python -m pipeline.browser.beeps --n 30 --transport tuned --json FILE
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.browser.beep_session import LOG_VARIABLE, SET_VARIABLE
from pipeline.browser.driver import Browser, Capture
from pipeline.browser.mic import MIC_RATE, write_wav
from pipeline.browser.recording import Pcm
from pipeline.browser.server import Server
from pipeline.timeline import Percentiles

APP = Path(__file__).parent / "beep_app.py"
LEAD_S, EVERY_S, SPREAD_S, TAIL_S = 7.0, 0.85, 0.1, 2.0
BEEP_HZ, BEEP_S, BEEP_LEVEL = 1000, 0.06, 0.7
ANSWERED_WITHIN_S = 0.8  # the next beep comes after EVERY_S


@dataclass(frozen=True, slots=True)
class Beep:
    """One beep's way, milliseconds."""

    total: float  # captured by the microphone -> its answer out of the page's audio element
    uplink: float  # captured -> in the session's hands
    server: float  # -> its answer's first sample pulled by the transport
    downlink: float  # -> out of the audio element


@dataclass(frozen=True, slots=True)
class BeepResult:
    """What `beeps` measured."""

    transport: str
    out_ptime_ms: int
    sent: int
    beeps: tuple[Beep, ...]  # those answered
    late_slots: int  # outbound frames more than 5 ms late, the whole call
    worst_slot_ms: float
    estimated_downlink_ms: float | None  # by the page's probe, which the HEARD mark rests on
    clock_error_ms: float
    load: float  # of the machine, 1 minute, per core: above 1 the figures tell of the neighbours
    stats: dict[str, Any]

    def percentiles(self) -> dict[str, Percentiles | None]:
        return {
            span: Percentiles.of(getattr(b, span) for b in self.beeps)
            for span in ("total", "uplink", "server", "downlink")
        }

    def as_dict(self) -> dict[str, Any]:
        spread = {f"{k}_ms": p.as_dict() if p else None for k, p in self.percentiles().items()}
        return {**asdict(self), "answered": len(self.beeps), "summary": spread}

    def table(self) -> str:
        rows = [f"{self.transport}, {self.out_ptime_ms} ms out: {len(self.beeps)} of {self.sent} beeps answered"]
        rows.append(f"{'ms':10}{'p50':>8}{'p95':>8}{'p99':>8}")
        for span, p in self.percentiles().items():
            rows.append(f"{span:10}" + (f"{p.p50:8.1f}{p.p95:8.1f}{p.p99:8.1f}" if p else "     none"))
        rows.append(f"late slots {self.late_slots}, worst {self.worst_slot_ms:.1f} ms; load per core {self.load:.2f}")
        return "\n".join(rows)


def beep_track(n: int) -> Pcm:
    """`n` beeps at slightly irregular times, so that they do not ride on a frame boundary. MIC_RATE."""
    rng = np.random.default_rng(7)
    out = rng.normal(0.0, 1e-4, round((LEAD_S + n * (EVERY_S + SPREAD_S) + TAIL_S) * MIC_RATE))
    t = np.arange(round(BEEP_S * MIC_RATE)) / MIC_RATE
    beep = BEEP_LEVEL * np.sin(2 * np.pi * BEEP_HZ * t)
    at = LEAD_S
    for _ in range(n):
        first = round(at * MIC_RATE)
        out[first : first + beep.size] = beep
        at += EVERY_S + rng.uniform(0.0, SPREAD_S)
    return (out * 32767).astype(np.int16)


def beeps(
    n: int = 30, transport: str = "tuned", *, sets: Sequence[str] = (), options: Sequence[str] = ()
) -> BeepResult:
    """Serve the beep app, speak `n` beeps into it and time the answers.

    `stock` leaves the libraries and Streamlit's collector as they come. `sets` are settings (NAME=VALUE), `options`
    go to Streamlit. Takes about n + 15 seconds.
    """
    collect = "true" if transport == "stock" else "false"
    with tempfile.TemporaryDirectory() as folder:
        wav, log = Path(folder) / "beeps.wav", Path(folder) / "log.jsonl"
        pcm = beep_track(n)
        write_wav(wav, pcm)
        settings = [f"transport={transport}", *sets]
        environment = {LOG_VARIABLE: str(log), SET_VARIABLE: " ".join(settings)}
        flags = ["--runner.postScriptGC", collect, *options]
        with Server(APP, Path(folder) / "server.log", flags, environment) as server, Browser(wav) as browser:
            browser.open(server.url)
            browser.press_start()
            browser.wait_connected()
            browser.start_capture()
            browser.wait(pcm.size / MIC_RATE)
            capture = browser.stop_capture()
        written = [json.loads(line) for line in log.read_text().splitlines()]
    ptime = next((int(s.split("=")[1]) for s in sets if s.startswith("out_ptime_ms=")), 20)
    return analyse(capture, written, n, transport, ptime)


def analyse(capture: Capture, written: list[dict[str, Any]], n: int, transport: str, ptime_ms: int) -> BeepResult:
    """Match each beep in the microphone with the session's log and the answer in the page."""
    spoken = [capture.mic.time_of(s) for s in capture.mic.onsets()]
    answers = [capture.ear.time_of(s) for s in capture.ear.onsets()]
    heard = [w["at"] for w in written if w["what"] == "heard"]
    pulled = [w["at"] for w in written if w["what"] == "pulled"]
    found: list[Beep] = []
    for at in spoken:
        h, p, a = (_next(times, at) for times in (heard, pulled, answers))
        if h is not None and p is not None and a is not None:
            found.append(Beep(*(round(s * 1e3, 2) for s in (a - at, h - at, p - h, a - p))))
    late = [w["late_ms"] for w in written if w["what"] == "slot"]
    estimates = [w["ms"] for w in written if w["what"] == "downlink"]
    return BeepResult(
        transport=transport,
        out_ptime_ms=ptime_ms,
        sent=n,
        beeps=tuple(found),
        late_slots=len(late),
        worst_slot_ms=max(late, default=0.0),
        estimated_downlink_ms=estimates[-1] if estimates else None,
        clock_error_ms=round(capture.clock_error_ms, 2),
        load=round(os.getloadavg()[0] / (os.cpu_count() or 1), 2),
        stats=capture.stats,
    )


def _next(times: list[float], after: float) -> float | None:
    return next((t for t in times if after < t < after + ANSWERED_WITHIN_S), None)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=30, help="beeps")
    parser.add_argument("--transport", choices=("tuned", "stock"), default="tuned")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="sets")
    parser.add_argument("--json", type=Path, help="write the result here")
    given = parser.parse_args(arguments)
    result = beeps(given.n, given.transport, sets=given.sets)
    print(result.table())
    if given.json:
        given.json.write_text(json.dumps(result.as_dict(), indent=1))
    return 0 if result.beeps else 1


if __name__ == "__main__":
    raise SystemExit(main())
