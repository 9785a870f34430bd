"""A voice behind an OpenAI-style speech endpoint (POST .../audio/speech), such as vllm-omni's: raw PCM as it is made.

What is sent: model, input, voice, speed, response_format=pcm and stream=true; the answer is int16 at 24 kHz, in
packets that may end in the middle of a sample. A voice of assets/voices travels as ref_audio and ref_text, which is
how vllm-omni's CosyVoice 3 is given one; any other name is the server's own.
"""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from pipeline.clock import SystemClock
from pipeline.engines.pump import Put, pumped
from pipeline.engines.sound import voiced
from pipeline.errors import Code, EngineError
from pipeline.manners import MANNERS
from pipeline.phrases import speakable
from pipeline.ports import Cancel, EngineOptions, Samples, Style, never
from pipeline.voices import voices

KEY = "SPEECH_API_KEY"
_RATE = 24_000
_PACKET = 4800  # bytes, 100 ms
_CONNECT_S = 3.0
_PATIENCE = 0.9  # of the session's own: the engine's error says more than the watchdog's
_SLOWEST, _FASTEST = 0.25, 4.0  # what the interface allows

_log = logging.getLogger(__name__)


class OpenaiSpeech:
    """One server; every phrase is a request of its own, and its connection is closed when nobody listens."""

    name = "openai-speech"
    rate = _RATE
    shortest = 1

    def __init__(self, options: EngineOptions) -> None:
        import requests

        self._settings = options.settings
        self._url = f"{options.settings.tts_url.rstrip('/')}/audio/speech"
        self._key = options.secret(KEY)
        self._http = requests.Session()
        self._http.trust_env = False  # a proxy of the environment has no business between us and a named server

    def warm_up(self) -> None:
        """Speak once. Raises as `speak` does: a server that is not there shows before the first visitor."""
        for _ in self.speak("你好。", Style(voice=self._settings.voice), never):
            pass

    def speak(self, phrase: str, style: Style, cancel: Cancel) -> Iterator[Samples]:
        """Pieces of at most 200 ms; nothing for a phrase with nothing to say.

        EngineError KEY_REFUSED, QUOTA, NETWORK, TTS_TIMEOUT, UNKNOWN_MANNER, TTS_FAILED with the server's words.
        """
        body = self._body(phrase, style)
        if not speakable(phrase) or cancel():
            return
        request = _Request(self._http, self._url, self._key, body, self._patience())
        packets = pumped(request.read, request.stop, cancel, self._patience(), self._late, self.name)
        what, clock, told = f"{self._url} made no sound of {phrase[:40]!r}", SystemClock(), False
        began = clock.now()
        silent = EngineError(Code.TTS_EMPTY, what, "look at its log")
        with closing(voiced(packets, _RATE, cancel, lambda: silent)) as pieces:
            for piece in pieces:
                if not told:
                    _log.info("first sound of %s after %.0f ms", self._url, (clock.now() - began) * 1e3)
                told = True
                yield piece

    def _body(self, phrase: str, style: Style) -> dict[str, Any]:
        body: dict[str, Any] = {"input": phrase, "response_format": "pcm", "stream": True}
        if self._settings.tts_model:
            body["model"] = self._settings.tts_model
        if style.voice in (known := voices()):
            body |= _reference(style.voice)
            body["ref_text"] = known[style.voice].transcript
        elif style.voice:
            body["voice"] = style.voice
        if style.speed != 1.0:
            body["speed"] = min(_FASTEST, max(_SLOWEST, style.speed))
        if style.manner:
            if style.manner not in MANNERS:
                what = f"the voice cannot speak in the manner {style.manner!r}"
                raise EngineError(Code.UNKNOWN_MANNER, what, f"one of: {', '.join(MANNERS)}")
            body["instructions"] = MANNERS[style.manner].instruction
        return body

    def _patience(self) -> float:
        return _PATIENCE * self._settings.tts_timeout_s

    def _late(self) -> EngineError:
        what = f"{self._url} was silent for {self._patience():.1f} s"
        return EngineError(Code.TTS_TIMEOUT, what, "look at the server, or raise tts_timeout_s")


def _reference(voice: str) -> dict[str, Any]:
    audio = voices()[voice].audio
    kind = audio.suffix.lstrip(".") or "wav"
    return {"ref_audio": f"data:audio/{kind};base64,{base64.b64encode(audio.read_bytes()).decode()}"}


class _Request:
    """One phrase's request; `stop` ends it from another thread."""

    def __init__(self, http: Any, url: str, key: str, body: dict[str, Any], patience_s: float) -> None:
        self._http, self._url, self._body, self._patience = http, url, body, patience_s
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._stopped = threading.Event()
        self._response: Any = None

    def read(self, put: Put[bytes]) -> None:
        import requests

        try:
            with self._http.post(
                self._url,
                json=self._body,
                headers=self._headers,
                stream=True,
                timeout=(_CONNECT_S, self._patience),
                allow_redirects=False,  # the key goes to the server that was named, and to no other
            ) as response:
                self._response = response
                if self._stopped.is_set():
                    return
                _check(response, self._url)
                # read1 gives what is there; iter_content would wait for a whole packet.
                while packet := response.raw.read1(_PACKET):
                    if not put(packet):
                        return
        except requests.Timeout as error:
            raise self._failed(Code.TTS_TIMEOUT, f"{self._url} does not answer in time", error) from error
        except requests.ConnectionError as error:
            raise self._failed(Code.NETWORK, f"{self._url} cannot be reached: {error}", error) from error
        except Exception as error:
            if isinstance(error, EngineError):
                raise
            raise self._failed(Code.TTS_FAILED, f"{self._url} broke off: {error}", error) from error

    def stop(self) -> None:
        """Shuts the connection, also while `read` waits for it."""
        self._stopped.set()
        response = self._response
        if response is None:
            return  # still connecting: it leaves when there is an answer
        try:
            response.raw.shutdown()
        except (ValueError, OSError, AttributeError):
            return  # already closed

    @staticmethod
    def _failed(code: Code, what: str, error: Exception) -> EngineError:
        del error
        return EngineError(code, what, "check tts_url and whether the server runs")


def _check(response: Any, url: str) -> None:
    """EngineError for an answer that is no sound."""
    kind = str(response.headers.get("content-type", ""))
    if response.status_code == 200 and "json" not in kind and "text" not in kind:
        return
    said = response.content[:300].decode("utf-8", "replace").strip()
    what = f"{url} answers {response.status_code}: {said}"
    if response.status_code in (401, 403):
        raise EngineError(Code.KEY_REFUSED, what, f"check {KEY}")
    if response.status_code in (402, 429):
        raise EngineError(Code.QUOTA, what, "wait, or raise the quota")
    raise EngineError(Code.TTS_FAILED, what, "check tts_model and voice")


def build(options: EngineOptions) -> OpenaiSpeech:
    if not options.settings.tts_url.startswith(("http://", "https://")):
        what = f"tts_url is {options.settings.tts_url!r}: the engine needs the address of a speech server"
        raise EngineError(Code.TTS_FAILED, what, "--set tts_url=http://127.0.0.1:8000/v1")
    return OpenaiSpeech(options)
