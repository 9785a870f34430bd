"""Chromium with a wav for a microphone, driven through Playwright."""

from __future__ import annotations

import base64
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from pipeline.browser.recording import Recording, Times
from pipeline.clock import SystemClock

CHROMIUM_VARIABLE = "TURNAROUND_CHROMIUM"
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TRY_S = 5.0
START_LABEL = re.compile(r"^(start|开始)$", re.IGNORECASE)
STOP_LABEL = re.compile(r"^(stop|停止)$", re.IGNORECASE)
SLICE = 2000  # blocks fetched at a time: 20 s of audio
CLOCK_READINGS = 20
FLAGS = (
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
)


@dataclass(frozen=True, slots=True)
class Capture:
    """Both ends of a call on Python's monotonic clock."""

    mic: Recording  # what the page's microphone gave, after the browser's own processing
    ear: Recording  # what the page's audio element was fed
    clock_error_ms: float  # half the quickest reading of the browser's clock: the mapping is no worse than this
    stats: dict[str, Any]  # the connection's, at the end of the capture


def chromium() -> str | None:
    """The browser to use: the variable's, else one on the path; None lets Playwright use its own."""
    named = os.environ.get(CHROMIUM_VARIABLE)
    return named or next((found for name in CHROMIUM_NAMES if (found := shutil.which(name))), None)


class Browser:
    """One visitor. `with Browser(mic=wav) as b: b.open(url); b.press_start(); b.wait_connected(); b.start_capture()`.

    The wav plays once, from the moment the page opens the microphone, then silence. Wait with `wait`: a sleep would
    stop Playwright's events.
    """

    def __init__(
        self,
        mic: Path | None = None,
        *,
        allow_microphone: bool = True,
        flags: tuple[str, ...] = (),
        ignore_certificate: bool = False,
        beside: Browser | None = None,  # an open one: Playwright runs once a thread, so a second browser borrows it
    ) -> None:
        self._mic = mic
        self._allow = allow_microphone
        self._flags = flags
        self._ignore_certificate = ignore_certificate
        self._beside = beside
        self._playwright: Any = None
        self._clock = SystemClock()
        self._stack: list[Any] = []
        self._offset: float | None = None
        self._clock_error = 0.0
        self.page: Any = None
        self.console: list[str] = []

    def __enter__(self) -> Browser:
        from playwright.sync_api import sync_playwright

        if self._beside is not None:
            self._playwright = self._beside._playwright
        else:
            self._playwright = sync_playwright().start()
            self._stack.append(self._playwright.stop)
        try:
            browser = self._playwright.chromium.launch(
                executable_path=chromium(), headless=True, args=self._arguments()
            )
            self._stack.append(browser.close)
            self._context = browser.new_context(
                permissions=["microphone"] if self._allow else [],
                ignore_https_errors=self._ignore_certificate,
                viewport={"width": 1280, "height": 900},
            )
            self._context.add_init_script(path=Path(__file__).parent / "capture.js")
            self.page = self._context.new_page()
            self.page.on("console", lambda m: self.console.append(f"{m.type}: {m.text}"))
            self.page.on("pageerror", lambda e: self.console.append(f"pageerror: {e}"))
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._close()

    def _close(self) -> None:
        while self._stack:
            self._stack.pop()()

    def _arguments(self) -> list[str]:
        arguments = [*FLAGS, *self._flags]
        if not self._allow:
            arguments.remove("--use-fake-ui-for-media-stream")  # it would grant what the test refuses
        if self._mic is not None:
            arguments.append(f"--use-file-for-fake-audio-capture={self._mic}%noloop")
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            arguments.append("--no-sandbox")  # Chromium's sandbox does not run as root, which containers are
        return arguments

    # -- the page

    def open(self, url: str) -> None:
        self.page.goto(url, wait_until="domcontentloaded")

    def wait(self, seconds: float) -> None:
        self.page.wait_for_timeout(max(0.0, seconds) * 1000)

    def frame(self, timeout_s: float = 60.0) -> Any:
        """The frame of streamlit-webrtc's component. TimeoutError when the page shows none."""
        until = self._clock.now() + timeout_s
        while self._clock.now() < until:
            for frame in self.page.frames:
                if "webrtc_streamer" in frame.url:
                    return frame
            self.wait(0.1)
        raise TimeoutError("the page has no call bar")

    def press_start(self, timeout_s: float = 60.0) -> None:
        """Press START once it can be pressed. TimeoutError, with what the page says, when it never can."""
        from playwright.sync_api import Error as Failed

        until = self._clock.now() + timeout_s
        while True:
            frame = self.frame(timeout_s)
            try:
                # In short tries: when the component is drawn anew under the pointer, one try may wait for ever.
                frame.get_by_role("button", name=START_LABEL).click(timeout=TRY_S * 1000)
                return
            except Failed as error:
                if self._clock.now() < until:
                    continue
                bar, page = frame.inner_text("body")[:300], self.page.inner_text("body")[-1500:]
                raise TimeoutError(f"no START. The call bar: {bar!r}\n{self.console[-8:]}\nThe page: {page}") from error

    def press_stop(self, timeout_s: float = 10.0) -> None:
        self.frame(timeout_s).get_by_role("button", name=STOP_LABEL).click(timeout=timeout_s * 1000)

    def connected(self) -> bool:
        """Whether media flows and the page's audio element plays it."""
        return bool(self.frame().evaluate("window.__turnaround_bench.connected()"))

    def wait_connected(self, timeout_s: float = 30.0) -> None:
        """TimeoutError, with the component's own words, when there is no connection by then."""
        until = self._clock.now() + timeout_s
        while self._clock.now() < until:
            if self.connected():
                return
            self.wait(0.02)
        raise TimeoutError("no connection: " + self.frame().inner_text("body")[:300])

    def stats(self) -> dict[str, Any]:
        return dict(self.frame().evaluate("window.__turnaround_bench.stats()"))

    # -- the capture

    def start_capture(self) -> dict[str, Any]:
        """Record both ends from now on. The microphone's settings and the audio element's volume."""
        frame = self.frame()
        self._offset, self._clock_error = self._read_clock(frame)
        return dict(frame.evaluate("window.__turnaround_bench.start()"))

    def stop_capture(self) -> Capture:
        """What was recorded since start_capture. RuntimeError when a track could not be recorded."""
        frame = self.frame()
        mic, ear = self._take(frame, "mic"), self._take(frame, "ear")
        errors = frame.evaluate("window.__turnaround_bench.errors")
        if errors:
            raise RuntimeError(f"the page could not record: {errors}")
        return Capture(mic, ear, self._clock_error * 1e3, self.stats())

    def _read_clock(self, frame: Any) -> tuple[float, float]:
        """Python's monotonic seconds minus the page's, and the reading's possible error (seconds)."""
        best = (0.0, float("inf"))
        for _ in range(CLOCK_READINGS):
            before = self._clock.now()
            page = frame.evaluate("performance.now()") / 1e3
            after = self._clock.now()
            if after - before < 2 * best[1]:
                best = ((before + after) / 2 - page, (after - before) / 2)
        return best

    def _take(self, frame: Any, name: str) -> Recording:
        assert self._offset is not None, "start_capture comes first"
        pcm: list[bytes] = []
        lengths: list[int] = []
        stamps: list[float] = []
        arrived: list[float] = []
        rate = 0
        while True:
            part = frame.evaluate("([name, n]) => window.__turnaround_bench.take(name, n)", [name, SLICE])
            rate = rate or int(part["rate"])
            pcm.append(base64.b64decode(part["pcm"]))
            lengths += part["lengths"]
            stamps += part["stamps"]
            arrived += part["arrived"]
            if len(part["lengths"]) < SLICE:
                break
        samples = np.frombuffer(b"".join(pcm), np.int16)
        heard = np.asarray(arrived) / 1e3 + self._offset
        times = first_sample_times(np.asarray(stamps) / 1e6, heard, self._offset)
        if name == "mic" and rate:
            times = times - np.asarray(lengths) / rate  # stamped when the block was complete, see first_sample_times
        return Recording.of(samples, rate, lengths, times)


def first_sample_times(stamps: Times, arrived: Times, offset: float) -> Times:
    """Chromium's block timestamps on Python's clock (seconds); `offset` is that clock minus the page's.

    Chromium counts them from the page's time origin or from the system's monotonic clock, by version: whichever puts
    the blocks next to their arrival is the one. The ear's stamp is the moment the block begins to play. The fake
    microphone hands a block over at once and stamps it then (0.6 ms before the script has it), while a sample cannot
    have been spoken later than it was handed over: its last sample belongs there, not its first.
    """
    if stamps.size == 0:
        return stamps
    candidates = (stamps, stamps + offset)
    return min(candidates, key=lambda c: abs(float(np.median(arrived - c))))
