"""Hosted CosyVoice (cosyvoice-v3-flash) by Alibaba's own streaming client, the package dashscope (Apache-2.0).

The key comes from the environment only and is sent to nobody else. Each phrase is a task of its own over a websocket;
a task nobody listens to is cancelled, which ends its cost too. The client logs what its connection meets and raises
little of it: here everything it notices reaches the listener, with a code.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Generator, Iterator
from typing import Any, TypeAlias

from pipeline.engines.pump import Put, pumped
from pipeline.engines.sound import voiced
from pipeline.errors import Code, EngineError
from pipeline.manners import MANNERS
from pipeline.phrases import speakable
from pipeline.ports import Cancel, EngineOptions, Samples, Style, never

KEY = "DASHSCOPE_API_KEY"
_RATE = 24_000
_MODEL = "cosyvoice-v3-flash"
_VOICE = "longanyang"
_PATIENCE = 0.9  # of the session's own: the engine's error says more than the watchdog's
_LONGEST_S = 60.0  # of one phrase; the server sends faster than it speaks
_LEAVE_MS = 1000  # what a cancelled task may take to say goodbye
_SLOWEST, _FASTEST = 0.5, 2.0
# The service words two manners otherwise than the open model, and lacks one dialect (its reference of `instruction`).
_WORDED = {"loud": "请尽可能非常大声地说一句话。", "soft": "请非常轻声地说一句话。"}
_LACKS = frozenset({"hunan"})
_REFUSED = ("apikey", "accessdenied", "unauthorized", "forbidden", "workspace")
_USED_UP = ("throttling", "quota", "arrearage", "limit")

Packet: TypeAlias = "bytes | EngineError"

_log = logging.getLogger(__name__)


class DashscopeTts:
    """The hosted voice; any number of phrases at once."""

    name = "dashscope"
    rate = _RATE
    shortest = 1

    def __init__(self, options: EngineOptions) -> None:
        self._settings = options.settings

    def warm_up(self) -> None:
        """Speak once. Raises as `speak` does: a wrong key shows before the first visitor."""
        for _ in self.speak("你好。", Style(voice=self._settings.voice), never):
            pass

    def speak(self, phrase: str, style: Style, cancel: Cancel) -> Iterator[Samples]:
        """Pieces of at most 200 ms; nothing for a phrase with nothing to say.

        EngineError KEY_REFUSED, QUOTA, NETWORK, TTS_TIMEOUT, UNKNOWN_MANNER, TTS_FAILED with the service's words.
        """
        instruction = _instruction(style.manner)
        if not speakable(phrase) or cancel():
            return
        task = _Task(self._settings.tts_model or _MODEL, style, instruction, self._settings.tts_url, phrase)
        packets = pumped(task.read, task.stop, cancel, self._patience(), self._late, self.name)
        what = f"the service made no sound of {phrase[:40]!r}"
        yield from voiced(_whole(packets), _RATE, cancel, lambda: EngineError(Code.TTS_EMPTY, what, "ask again"))

    def _patience(self) -> float:
        return _PATIENCE * self._settings.tts_timeout_s

    def _late(self) -> EngineError:
        what = f"the service was silent for {self._patience():.1f} s"
        return EngineError(Code.TTS_TIMEOUT, what, "check the network, or raise tts_timeout_s")


def _whole(packets: Generator[Packet, None, None]) -> Generator[bytes, None, None]:
    """The packets, up to an error among them, which is raised."""
    try:
        for packet in packets:
            if isinstance(packet, EngineError):
                raise packet
            yield packet
    finally:
        packets.close()


def _instruction(manner: str) -> str | None:
    if not manner:
        return None
    if manner not in MANNERS or manner in _LACKS:
        what = f"the hosted voice cannot speak in the manner {manner!r}"
        raise EngineError(Code.UNKNOWN_MANNER, what, f"one of: {', '.join(m for m in MANNERS if m not in _LACKS)}")
    return _WORDED.get(manner, MANNERS[manner].instruction)


class _Task:
    """One phrase. `read` runs in a thread of its own; the client calls back from another."""

    def __init__(self, model: str, style: Style, instruction: str | None, url: str, phrase: str) -> None:
        self._phrase = phrase
        self._put: Put[Packet] | None = None
        self._stopped = threading.Event()
        self._over = threading.Event()
        self._client = _client(self, model, style, instruction, url)

    def read(self, put: Put[Packet]) -> None:
        self._put = put
        try:
            self._client.streaming_call(self._phrase)
            self._client.streaming_complete(round(_LONGEST_S * 1e3))
        except Exception as error:
            if not self._stopped.is_set():
                raise _failed(error) from error
        finally:
            self._over.set()
            self._client.close()
        _log.info("first package of the hosted voice after %.0f ms", self._client.get_first_package_delay())

    def stop(self) -> None:
        """Tells the service that nobody listens; waits for nothing."""
        self._stopped.set()
        threading.Thread(target=self._leave, name="dashscope-leaving", daemon=True).start()

    def _leave(self) -> None:
        try:
            self._client.streaming_cancel(_LEAVE_MS)
        except Exception as error:  # not started yet, or its connection is gone already
            _log.debug("nothing to cancel: %s", error)
        # What still waits in `read` is let go, whatever the connection does.
        self._client.close()
        self._client.ws = None  # its loop that waits for a connection ends here, too
        self._client.start_event.set()
        self._client.complete_event.set()

    # -- what the client notices

    def sounded(self, packet: bytes) -> None:
        if self._put is not None and not self._stopped.is_set():
            self._put(bytes(packet))

    def failed(self, error: EngineError) -> None:
        if self._put is not None and not self._stopped.is_set() and not self._over.is_set():
            self._put(error)


def _client(task: _Task, model: str, style: Style, instruction: str | None, url: str) -> Any:
    """The package's client for one phrase, with its silent errors made known to `task`."""
    from dashscope.audio.tts_v2 import AudioFormat, ResultCallback, SpeechSynthesizer

    callback: Any = ResultCallback()
    callback.on_data = task.sounded
    callback.on_error = lambda message: task.failed(_refused(str(message)))

    class Client(SpeechSynthesizer):
        def on_error(self, ws: Any, error: Any) -> None:
            """The base class logs this and lets its caller wait for five seconds."""
            task.failed(_failed(error))

        def on_close(self, ws: Any, close_status_code: Any, close_msg: Any) -> None:
            if not self.complete_event.is_set():
                what = f"the service closed the connection ({close_status_code} {close_msg})"
                task.failed(EngineError(Code.TTS_FAILED, what, "ask again"))

    return Client(
        model=model,
        voice=style.voice or _VOICE,
        format=AudioFormat.PCM_24000HZ_MONO_16BIT,
        speech_rate=min(_FASTEST, max(_SLOWEST, style.speed)),
        instruction=instruction,
        callback=callback,
        url=url if url.startswith(("ws://", "wss://")) else None,  # another engine's address is not its own
    )


def _refused(message: str) -> EngineError:
    """What the service's own "task-failed" message means."""
    try:
        header = json.loads(message)["header"]
        name, said = str(header.get("error_code", "")), str(header.get("error_message", ""))
    except (ValueError, KeyError, TypeError):
        name, said = "", message
    return _coded(name, f"the service answers {name}: {said[:300]}")


def _coded(name: str, what: str) -> EngineError:
    plain = name.lower().replace(".", "").replace("_", "")
    if any(mark in plain for mark in _REFUSED):
        return EngineError(Code.KEY_REFUSED, what, f"check {KEY}")
    if any(mark in plain for mark in _USED_UP):
        return EngineError(Code.QUOTA, what, "wait, or raise the quota")
    return EngineError(Code.TTS_FAILED, what, "check tts_model, voice and manner")


def _failed(error: Any) -> EngineError:
    """What an exception out of the client or its connection means."""
    status = getattr(error, "status_code", None)
    if status in (401, 403):
        return EngineError(Code.KEY_REFUSED, f"the service refuses the connection ({status})", f"check {KEY}")
    if status == 429:
        return EngineError(Code.QUOTA, "the service refuses the connection (429)", "wait, or raise the quota")
    name = getattr(error, "name", None)
    if isinstance(name, str) and name:
        return _coded(name, f"the service answers {name}: {getattr(error, 'message', error)}")
    if isinstance(error, OSError) or status is not None or type(error).__module__.startswith("websocket"):
        what = f"the service cannot be reached: {type(error).__name__}: {error}"
        return EngineError(Code.NETWORK, what, "check the network")
    return EngineError(Code.TTS_FAILED, f"the hosted voice: {type(error).__name__}: {error}", "ask again")


def build(options: EngineOptions) -> DashscopeTts:
    """EngineError KEY_MISSING without a key; ImportError without the package."""
    import dashscope

    key = options.secret(KEY)
    if not key:
        raise EngineError(Code.KEY_MISSING, f"{KEY} is not set: the hosted voice needs it", f"export {KEY}=...")
    dashscope.api_key = key  # the client reads it nowhere else
    return DashscopeTts(options)
