"""Errors with a code: each ends its turn once and is shown in plain words with what to do."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """Every failure a visitor or an operator can meet. The page's words for each are in ui/words.py."""

    NOTHING_HEARD = "asr.nothing-heard"  # sound, but no words in it
    BAD_AUDIO = "audio.bad"  # NaN, infinite or empty samples
    UNREADABLE_FILE = "audio.unreadable-file"
    TOO_SHORT = "audio.too-short"
    ASR_FAILED = "asr.failed"
    ASR_TIMEOUT = "asr.timeout"
    LLM_FAILED = "llm.failed"
    LLM_TIMEOUT = "llm.timeout"
    LLM_EMPTY = "llm.empty"  # no text at all, or nothing that can be spoken
    TTS_FAILED = "tts.failed"
    TTS_TIMEOUT = "tts.timeout"
    TTS_EMPTY = "tts.empty"  # no audio for a speakable phrase
    UNKNOWN_MANNER = "manner.unknown"  # a way of speaking that the voice was not trained in
    VAD_FAILED = "vad.failed"
    INTERNAL = "session.internal"
    WEIGHTS_MISSING = "weights.missing"
    WEIGHTS_CORRUPT = "weights.corrupt"
    PACKAGE_MISSING = "package.missing"
    KEY_MISSING = "key.missing"  # a key or a path that an engine takes from the environment is not set
    KEY_REFUSED = "key.refused"  # the server of a hosted engine does not accept it
    QUOTA = "server.quota"  # the server accepts no more requests from this account for now
    NETWORK = "network.unreachable"
    DISK_FULL = "disk.full"
    UNKNOWN_ENGINE = "engine.unknown"
    UNKNOWN_MODEL = "model.unknown"  # no row has it, or the hub does not
    UNKNOWN_PROFILE = "profile.unknown"
    BAD_PROFILE = "profile.bad"
    UNKNOWN_SCENARIO = "scenario.unknown"
    BAD_SCENARIO = "scenario.bad"
    TRANSPORT_UNTESTED = "transport.untested-version"
    TOO_MANY_VISITORS = "host.too-many-visitors"


class TurnaroundError(Exception):
    """An error that knows its code, says what happened and what to do about it.

    `str(error)` is one line for a log: code, what happened, remedy.
    """

    def __init__(self, code: Code, what: str, remedy: str = "") -> None:
        super().__init__(f"{code}: {what}" + (f" -> {remedy}" if remedy else ""))
        self.code = code
        self.what = what
        self.remedy = remedy


class EngineError(TurnaroundError):
    """Raised by an engine. Any other exception out of an engine is a defect and is shown as *_FAILED."""
