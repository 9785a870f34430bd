"""The page without a call, from end to end: no microphone to be had, and sample callers."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from pipeline.audio import read_clip, resample
from pipeline.bench.callers import DEFAULT_FOLDER
from pipeline.errors import Code
from pipeline.ports import CAPTURE_RATE
from pipeline.ui.words import of_error, say
from tests.e2e_visit import FOREIGN_HOST, App, Visitor, names, visiting

pytestmark = pytest.mark.browser

SHORT = DEFAULT_FOLDER / "en_02_plain.flac"  # "Where is my order?"
SHORT_WORDS = ("where", "order")
CALL_S = 90.0


def wav(rate: int, channels: int = 1, seconds: float | None = None, clip: Path = SHORT) -> bytes:
    """The caller as a wav file of another kind, cut to `seconds`."""
    sound = resample(read_clip(clip), CAPTURE_RATE, rate)
    sound = sound if seconds is None else sound[: round(seconds * rate)]
    out = io.BytesIO()
    soundfile.write(out, np.stack([sound] * channels, axis=1), rate, format="WAV", subtype="PCM_16")
    return out.getvalue()


def sample_is_over(visitor: Visitor) -> None:
    """Wait until the caller has hung up and what was said can be played."""
    visitor.says(say("sample.done", "en"), CALL_S)
    source = visitor.until("there is a player", lambda: visitor.page.locator("audio[data-testid=stAudio]").count())
    assert source == 1


def upload(visitor: Visitor, name: str, content: bytes) -> None:
    """Choose a file and play it."""
    visitor.page.locator("input[type=file]").set_input_files({"name": name, "mimeType": "audio/wav", "buffer": content})
    visitor.until("the file has arrived", lambda: name in visitor.text())
    visitor.page.get_by_role("button", name=say("sample.play-own", "en")).click()


def test_a_refused_microphone_is_said(app: App) -> None:
    with visiting(app.url, allow_microphone=False) as visitor:
        visitor.browser.press_start()
        visitor.says(say("call.refused", "en"))


def test_a_page_that_may_have_no_microphone_says_so(app: App) -> None:
    """http under a name that is not localhost's; in Chinese, as that is said in the visitor's language too."""
    flags = (f"--host-resolver-rules=MAP {FOREIGN_HOST} 127.0.0.1", "--no-proxy-server")
    with visiting(app.url.replace("127.0.0.1", FOREIGN_HOST), lang="zh", flags=flags) as visitor:
        visitor.says(say("call.insecure", "zh"))


def test_a_sample_caller_is_answered_without_a_microphone(app: App) -> None:
    with visiting(app.url, allow_microphone=False) as visitor:
        visitor.page.get_by_role("button", name=say("sample.play", "en")).click()
        visitor.says(say("sample.running", "en"))
        turn = visitor.answered(1)
        assert names(("opening", "hours", "saturday"), turn.heard)
        sample_is_over(visitor)
        assert visitor.our_errors() == []


@pytest.mark.parametrize(("rate", "channels"), [(8_000, 1), (44_100, 2)])
def test_a_clip_of_one_s_own_is_answered(app: App, rate: int, channels: int) -> None:
    with visiting(app.url) as visitor:
        upload(visitor, f"mine-{rate}.wav", wav(rate, channels))
        assert names(SHORT_WORDS, visitor.answered(1).heard)
        sample_is_over(visitor)


def test_a_clip_that_cannot_be_used_is_refused_in_words(app: App) -> None:
    with visiting(app.url) as visitor:
        upload(visitor, "broken.wav", wav(CAPTURE_RATE)[:20])
        visitor.says(of_error(Code.UNREADABLE_FILE, "en").what)
        upload(visitor, "blip.wav", wav(CAPTURE_RATE, seconds=0.05))
        visitor.says(of_error(Code.TOO_SHORT, "en").what)
        assert of_error(Code.UNREADABLE_FILE, "en").what not in visitor.text()
        assert visitor.turns() == []
