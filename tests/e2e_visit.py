"""A visitor of the real page for the end-to-end tests: what they say, what the page shows, what they hear."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pipeline.audio import from_int16, read_clip, resample
from pipeline.bench.callers import DEFAULT_FOLDER, read_callers
from pipeline.bench.words import tokens
from pipeline.browser.driver import Browser
from pipeline.browser.mic import MicClip, MicWav, make_mic_wav
from pipeline.browser.recording import Pcm, Recording
from pipeline.browser.server import ROOT, Server
from pipeline.clock import SystemClock
from pipeline.ports import CAPTURE_RATE, Asr
from pipeline.ui.resources import MAX_VISITORS
from tests.e2e_server import VARIABLE

LEAD_S = 6.0  # before the first word: the wav plays from START on, and connecting takes a while on a busy machine
GAP_S = 14.0  # between two questions of one call: an answer, and something done meanwhile
LOADS_WITHIN_S = 240.0
ANSWERS_WITHIN_S = 60.0
FOREIGN_HOST = "turnaround.test"  # http under any name but localhost's: the browser has no microphone for it
SPEECH = 0.01  # of full scale
MARGIN_S = 0.3  # of silence left around what is recognised

T = TypeVar("T")


class App:
    """app.py with the embedded engines, in a process of its own."""

    def __init__(self, server: Server, threads: Path) -> None:
        self.server, self.url, self._threads = server, server.url, threads

    def sessions(self) -> int:
        """How many sessions there are, by their listening threads."""
        self._threads.unlink(missing_ok=True)
        os.kill(self.server.pid, signal.SIGUSR1)
        clock = SystemClock()
        until = clock.now() + 20.0
        while not self._threads.exists():
            assert clock.now() < until, "the server does not answer a signal"
            clock.sleep(0.05)
        return int(json.loads(self._threads.read_text()).count("turnaround-listen"))


@contextmanager
def serving(folder: Path, more: Mapping[str, str] | None = None) -> Iterator[App]:
    """The app, its engines loaded by a first visitor who leaves at once; `more` goes into its environment."""
    threads = folder / "threads.json"
    options = ["--browser.serverAddress", FOREIGN_HOST, "--runner.postScriptGC", "false"]
    # Tests come and go faster than places are given back.
    environment = {VARIABLE: str(threads), MAX_VISITORS: "12", **(more or {})}
    with Server(ROOT / "app.py", folder / "server.log", options, environment, "tests.e2e_server") as server:
        with visiting(server.url) as first:
            first.browser.frame(LOADS_WITHIN_S)
        yield App(server, threads)
        log = (folder / "server.log").read_text(errors="replace")
        assert "Traceback" not in log, log[-6000:]


@dataclass(frozen=True, slots=True)
class Shown:
    """One turn as the page shows it."""

    heard: str
    reply: str
    unsaid: str  # the struck part of it
    live: bool  # the transcript may change, or the reply goes on
    note: str
    problem: str
    timing: str

    @property
    def answered(self) -> bool:
        return bool(self.reply and self.timing) and not (self.live or self.note or self.problem)

    @property
    def interrupted(self) -> bool:
        return "Interrupted" in self.note

    @property
    def ms(self) -> dict[str, int]:
        """total, listen, think and speak."""
        found = re.match(r"(\d+) ms: listen (\d+) · think (\d+) · speak (\d+)", self.timing)
        assert found is not None, f"no timing in {self.timing!r}"
        return dict(zip(("total", "listen", "think", "speak"), map(int, found.groups()), strict=True))


_READ_TURNS = """() => [...document.querySelectorAll(".ta-turn")].map(turn => {
  const text = s => [...turn.querySelectorAll(s)].map(e => e.textContent).join(" ").trim();
  return {heard: text(".ta-caller .ta-text"), reply: text(".ta-reply .ta-text"), unsaid: text(".ta-reply s"),
          live: turn.querySelector(".ta-live") !== null, note: text(".ta-note"), problem: text(".ta-problem"),
          timing: text(".ta-timing")};
})"""


class Visitor:
    """A browser on the page."""

    def __init__(self, browser: Browser) -> None:
        self.browser, self.page = browser, browser.page
        self._clock = SystemClock()

    def until(self, what: str, found: Callable[[], T], timeout_s: float = 30.0) -> T:
        """What `found` gives as soon as it is true. AssertionError when it does not become so."""
        until = self._clock.now() + timeout_s
        while True:
            value = found()
            if value:
                return value
            assert self._clock.now() < until, f"{what}: not within {timeout_s:.0f} s"
            self.browser.wait(0.2)

    def text(self) -> str:
        return str(self.page.inner_text("body"))

    def says(self, words: str, timeout_s: float = 30.0) -> None:
        """Wait until the page says `words`."""
        self.until(f"the page says {words!r}", lambda: words in self.text(), timeout_s)

    def turns(self) -> list[Shown]:
        """The conversation as it is shown at this moment."""
        return [Shown(**turn) for turn in self.page.evaluate(_READ_TURNS)]

    def turn(self, number: int, what: str, is_so: Callable[[Shown], bool]) -> Shown:
        """The turn `number` (from 1) as soon as `is_so` of it."""

        def found() -> Shown | None:
            shown = self.turns()
            return shown[number - 1] if len(shown) >= number and is_so(shown[number - 1]) else None

        return self.until(f"turn {number} {what}", found, ANSWERS_WITHIN_S)  # type: ignore[return-value]

    def answered(self, number: int) -> Shown:
        return self.turn(number, "is answered", lambda t: t.answered)

    def call(self, record: bool = False) -> None:
        """START, until the call is up; `record`: both ends from then on.

        A recording holds on to the microphone: without one its wav begins anew with the next START.
        """
        self.browser.press_start()
        self.browser.wait_connected(60.0)
        if record:
            self.browser.start_capture()

    def connections(self) -> list[str]:
        """The state of every connection this page has made, oldest first."""
        script = "window.__turnaround_bench.connections.map(c => c.connectionState)"
        return list(self.browser.frame().evaluate(script))

    def packets(self) -> tuple[int, int]:
        """Sent and received so far by the newest connection."""
        stats = self.browser.stats()
        return stats["outbound"]["packets"], stats["inbound"]["received"]

    def slide(self, label: str, by: int) -> None:
        """Move the slider `label` by so many steps, with the arrow keys."""
        slider = self.page.get_by_role("slider", name=label)
        before = float(slider.input_value())
        for _ in range(abs(by)):
            slider.press("ArrowRight" if by > 0 else "ArrowLeft")
        self.until(f"{label} has moved", lambda: (float(slider.input_value()) - before) * by > 0, 5.0)

    def our_errors(self) -> list[str]:
        """What went wrong in the page, by its console.

        Streamlit looks for an icon on the web, which a machine without one cannot reach.
        """
        wrong = [line for line in self.browser.console if line.startswith(("error:", "pageerror:"))]
        return [line for line in wrong if "Failed to load resource: net::" not in line]


@contextmanager
def visiting(
    url: str, mic: MicWav | None = None, beside: Visitor | None = None, lang: str = "en", **browser: Any
) -> Iterator[Visitor]:
    """A visitor whose page has loaded."""
    with Browser(mic.path if mic else None, beside=beside.browser if beside else None, **browser) as opened:
        opened.open(f"{url}?lang={lang}")
        visitor = Visitor(opened)
        try:
            yield visitor
        except Exception as error:
            error.add_note(
                f"The page then:\n{visitor.text()[-3000:]}\nIts console:\n" + "\n".join(opened.console[-12:])
            )
            raise


def asking(path: Path, *files: str, gap_s: float = GAP_S) -> MicWav:
    """A microphone in which these bundled callers are heard one after the other."""
    ends = {c.file: c.speech_end_s for c in read_callers(DEFAULT_FOLDER)}
    return make_mic_wav([MicClip(read_clip(DEFAULT_FOLDER / f), ends[f]) for f in files], gap_s, path, LEAD_S)


def transcript(asr: Asr, heard: Recording) -> str:
    """What was said in a recording, without the silence around it. AssertionError when there is no sound in it."""
    loud = np.flatnonzero(np.abs(heard.pcm.astype(np.int32)) > SPEECH * 32767)
    assert loud.size, f"{heard.seconds:.1f} s were recorded, all silent"
    margin = round(MARGIN_S * heard.rate)
    hearing = asr.listen()
    hearing.feed(
        resample(from_int16(heard.pcm[max(0, loud[0] - margin) : loud[-1] + margin]), heard.rate, CAPTURE_RATE)
    )
    return hearing.finish()


def overlap(wanted: str, heard: str) -> float:
    """Share (0..1) of the words of `wanted` that were heard."""
    words = Counter(tokens(wanted))
    assert words, "nothing was wanted"
    return (words & Counter(tokens(heard))).total() / words.total()


def sounding(pcm: Pcm) -> bool:
    return bool(pcm.size and np.sqrt(np.mean(pcm.astype(np.float64) ** 2)) > SPEECH * 32767)


def names(wanted: Sequence[str], text: str) -> bool:
    """Whether all these words are in `text`."""
    return set(wanted) <= set(tokens(text))
