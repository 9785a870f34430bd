"""The two voices that live on a server, over real sockets: what is asked, what is heard, what goes wrong."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np
import pytest

from pipeline.engines import dashscope_tts
from pipeline.engines.registry import Kind, create
from pipeline.errors import Code, EngineError
from pipeline.manners import MANNERS
from pipeline.ports import EngineOptions, Samples, Style, never
from pipeline.settings import Settings
from pipeline.voices import voices
from tests.tiny.speech_servers import KEY, RATE, DashscopeServer, OpenaiServer, Seen, hertz

pytestmark = pytest.mark.engines  # for the time it takes; no model is loaded

ASK = "您好，请问有什么可以帮您？"
NAMES = ("openai-speech", "dashscope")
SERVERS = {"openai-speech": OpenaiServer, "dashscope": DashscopeServer}


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(name: str) -> Iterator[Any]:
    opened = SERVERS[name]()
    yield opened
    opened.close()
    assert wait(lambda: not threads()), threads()


def engine(name: str, url: str, key: str = KEY, **settings: Any) -> Any:
    chosen = Settings(tts=name, tts_url=url, **({"tts_timeout_s": 5.0} | settings))
    return create(Kind.TTS, name, EngineOptions(settings=chosen, secret=lambda _: key))  # type: ignore[call-overload]


def spoken(tts: Any, text: str = ASK, **style: Any) -> Samples:
    pieces = list(tts.speak(text, Style(**style), never))
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)


def pitch(audio: Samples) -> float:
    middle = audio[audio.size // 4 : audio.size * 3 // 4]
    return float(np.abs(np.fft.rfft(middle * np.hanning(middle.size))).argmax()) * RATE / middle.size


def threads() -> list[str]:
    """Threads of an engine that still wait for its server."""
    return [t.name for t in threading.enumerate() if t.name.startswith(NAMES)]


def wait(until: Any, seconds: float = 8.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not until():
        time.sleep(0.01)
    return bool(until())


def code_of(tts: Any, text: str = ASK, **style: Any) -> Code:
    with pytest.raises(EngineError) as caught:
        spoken(tts, text, **style)
    return caught.value.code


def test_a_phrase_is_heard_without_the_silence_around_it(name: str, server: Any) -> None:
    pieces = list(engine(name, server.url).speak(ASK, Style(), never))
    audio = np.concatenate(pieces)
    assert all(p.dtype == np.float32 and p.ndim == 1 and 0 < p.size <= RATE // 5 for p in pieces)
    assert audio.size / RATE == pytest.approx(0.06 * len(ASK) + 0.12, abs=0.01)
    assert 0.35 < np.abs(audio).max() <= 0.41


def test_packets_that_end_inside_a_sample_are_put_together(name: str, server: Any) -> None:
    """A byte too many and the tone would be noise."""
    voice = "" if name == "openai-speech" else "longanyang"
    audio = spoken(engine(name, server.url))
    assert pitch(audio) == pytest.approx(hertz(ASK, voice), abs=4)
    assert np.abs(np.diff(audio[: RATE // 2])).max() < 0.1


def test_what_is_asked_of_openai() -> None:
    server = OpenaiServer()
    tts = engine("openai-speech", server.url, tts_model="cosy")
    spoken(tts, voice="alloy", manner="happy", speed=1.5)
    spoken(tts, voice="xiaoni")
    first, second = server.seen.asked
    assert first["path"] == "/v1/audio/speech"
    assert first["key"] == f"Bearer {KEY}"
    wanted = {"input": ASK, "model": "cosy", "voice": "alloy", "speed": 1.5, "response_format": "pcm", "stream": True}
    assert wanted.items() <= first.items()
    assert first["instructions"] == MANNERS["happy"].instruction
    kind, _, coded = second["ref_audio"].partition(";base64,")
    assert kind == "data:audio/flac"
    assert base64.b64decode(coded) == voices()["xiaoni"].audio.read_bytes()
    assert second["ref_text"] == voices()["xiaoni"].transcript
    assert "voice" not in second
    server.close()


def test_what_is_asked_of_dashscope() -> None:
    server = DashscopeServer()
    tts = engine("dashscope", server.url)
    spoken(tts, voice="longanhuan", manner="cantonese", speed=1.5)
    spoken(tts, manner="loud")
    first, second = server.seen.asked
    wanted = {"model": "cosyvoice-v3-flash", "voice": "longanhuan", "rate": 1.5, "format": "pcm", "sample_rate": RATE}
    assert wanted.items() <= first.items()
    assert first["instruction"] == "请用广东话表达。"
    assert first["text"] == ASK
    assert second["instruction"] != MANNERS["loud"].instruction, "the service has words of its own for it"
    assert "instruction" not in server.seen.asked[-1] or second["voice"] == "longanyang"
    assert code_of(tts, manner="hunan") is Code.UNKNOWN_MANNER, "the service does not have it"
    server.close()


def test_the_pace_is_the_servers(name: str, server: Any) -> None:
    tts = engine(name, server.url)
    assert spoken(tts, speed=2.0).size < spoken(tts).size < spoken(tts, speed=0.5).size


@pytest.mark.parametrize("text", ["", " \n", "...", "。", "\U0001f600"])
def test_nothing_to_say_is_not_asked(name: str, server: Any, text: str) -> None:
    assert spoken(engine(name, server.url), text).size == 0
    assert server.seen.asked == []


def test_a_refused_key(name: str, server: Any) -> None:
    began = time.monotonic()
    assert code_of(engine(name, server.url, key="wrong")) is Code.KEY_REFUSED
    assert time.monotonic() - began < 3.0, "at once, and not when the client's own patience ends"


def test_a_quota_used_up(name: str, server: Any) -> None:
    assert code_of(engine(name, server.url), "busily") is Code.QUOTA


def test_an_unknown_voice(name: str, server: Any) -> None:
    assert code_of(engine(name, server.url), voice="nobody") is Code.TTS_FAILED


def test_an_unknown_manner_is_not_asked(name: str, server: Any) -> None:
    assert code_of(engine(name, server.url), manner="cantonese,happy") is Code.UNKNOWN_MANNER
    assert server.seen.asked == []


def test_nobody_there(name: str) -> None:
    server = SERVERS[name]()
    server.close()
    assert code_of(engine(name, server.url)) is Code.NETWORK
    assert wait(lambda: not threads())


def test_a_server_that_says_nothing(name: str, server: Any) -> None:
    assert code_of(engine(name, server.url, tts_timeout_s=0.5), "hanging") is Code.TTS_TIMEOUT
    server.stopping.set()


def test_a_connection_that_breaks(name: str, server: Any) -> None:
    """Half a phrase, then a code: not a phrase that merely ends early."""
    heard: list[Samples] = []
    with pytest.raises(EngineError) as caught:
        heard.extend(engine(name, server.url).speak("breaking, half way through", Style(), never))
    assert caught.value.code in (Code.TTS_FAILED, Code.NETWORK)


def test_silence_for_words_is_an_error(name: str, server: Any) -> None:
    assert code_of(engine(name, server.url), "silently") is Code.TTS_EMPTY


def gone(seen: Seen) -> bool:
    return bool(seen.broken or seen.cancelled)


def test_a_listener_who_leaves_is_told_to_the_server(name: str, server: Any) -> None:
    pieces = engine(name, server.url).speak("slowly " * 30, Style(), never)
    list(islice(pieces, 2))
    pieces.close()
    assert wait(lambda: gone(server.seen))
    assert server.seen.whole == 0


def test_cancelled_between_two_packets(name: str, server: Any) -> None:
    heard: list[Samples] = []
    began = time.monotonic()
    for piece in engine(name, server.url).speak("slowly " * 30, Style(), lambda: len(heard) >= 2):
        heard.append(piece)
    assert len(heard) == 2
    assert time.monotonic() - began < 5.0
    assert wait(lambda: gone(server.seen))


def test_cancelled_before_the_first_packet(name: str, server: Any) -> None:
    began = time.monotonic()
    assert list(engine(name, server.url).speak("hanging", Style(), lambda: time.monotonic() > began + 0.3)) == []
    assert time.monotonic() - began < 2.0, "nobody waits for the server"
    server.stopping.set()


def test_twenty_visitors_at_once_each_hear_their_own(name: str, server: Any) -> None:
    tts = engine(name, server.url)
    texts = [f"您的订单号是{n}和{n}，谢谢。" for n in range(20)]
    with ThreadPoolExecutor(20) as pool:
        heard = list(pool.map(lambda text: spoken(tts, text), texts))
    voice = "" if name == "openai-speech" else "longanyang"
    for text, audio in zip(texts, heard, strict=True):
        assert pitch(audio) == pytest.approx(hertz(text, voice), abs=4), text


@pytest.mark.parametrize(("engine_name", "url", "code"), [
    ("dashscope", "ws://127.0.0.1:9", Code.KEY_MISSING),
    ("openai-speech", "", Code.TTS_FAILED),
    ("openai-speech", "127.0.0.1:8000", Code.TTS_FAILED),
])  # fmt: skip
def test_what_is_not_set_is_said_when_the_engine_is_made(engine_name: str, url: str, code: Code) -> None:
    with pytest.raises(EngineError) as caught:
        engine(engine_name, url, key="")
    assert caught.value.code is code


def test_the_hosted_voice_does_not_take_another_engines_address() -> None:
    tts = engine("dashscope", "http://127.0.0.1:9/v1")
    task = dashscope_tts._Task("m", Style(), None, tts._settings.tts_url, ASK)
    assert task._client.url.startswith("wss://")


def test_a_missing_package_is_met_with_its_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "dashscope", None)
    with pytest.raises(EngineError, match=r"pip install dashscope==") as caught:
        engine("dashscope", "")
    assert caught.value.code is Code.PACKAGE_MISSING
