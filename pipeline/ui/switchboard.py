"""Who is on the line of one visitor: the microphone of a call, or a sample caller. No Streamlit and no media here.

While a sample caller speaks the microphone is not heard, so that two voices do not mix; and when a call is up the
reply is left to the call, because two who pull would each get half of it.
"""

from __future__ import annotations

import threading
from typing import Protocol

import numpy as np

from pipeline.clock import Clock
from pipeline.events import Snapshot
from pipeline.loopback import Line, Loopback
from pipeline.playout import Pcm16
from pipeline.ports import CAPTURE_RATE, PLAYOUT_RATE, Chunk, Samples

CALL_PULLS_S = 0.25  # a call pulls every 10 or 20 ms; one that has not for so long is gone
SETTLE_S = 1.0  # after the clip, before "nothing is going on" is believed
GIVE_UP_S = 6.0  # after the clip, when no turn has begun
_GAP_AFTER_S = 0.4  # of quiet kept after the reply in what is played back


class Talk(Line, Protocol):
    """What is used of a Session here."""

    def downlink(self, ms: float) -> None: ...


class Microphone:
    """The session as a call sees it; silent towards the session while a sample caller speaks."""

    def __init__(self, session: Talk) -> None:
        self.session = session
        self.suspended = False
        self._pulled_at = float("-inf")

    @property
    def clock(self) -> Clock:
        return self.session.clock

    @property
    def in_call(self) -> bool:
        """Whether a call is taking the reply away."""
        return self.clock.now() - self._pulled_at < CALL_PULLS_S

    def hear(self, chunk: Chunk) -> None:
        if not self.suspended:
            self.session.hear(chunk)

    def pull(self, n: int) -> Pcm16:
        self._pulled_at = self.clock.now()
        return self.session.pull(n)

    def slot(self, late_s: float) -> None:
        self.session.slot(late_s)

    def downlink(self, ms: float) -> None:
        self.session.downlink(ms)


class _Caller:
    """The session as a sample caller sees it: pulls only while no call does."""

    def __init__(self, microphone: Microphone) -> None:
        self._microphone, self._session = microphone, microphone.session
        self.clock = microphone.clock

    def hear(self, chunk: Chunk) -> None:
        self._session.hear(chunk)

    def pull(self, n: int) -> Pcm16:
        return np.zeros(n, np.int16) if self._microphone.in_call else self._session.pull(n)

    def slot(self, late_s: float) -> None:
        if not self._microphone.in_call:
            self._session.slot(late_s)


class SampleCall:
    """One clip being played into a visitor's session. `step` is asked at each poll and ends it in time."""

    def __init__(self, microphone: Microphone, clip: Samples, turns_before: int) -> None:
        self._microphone, self._clip, self._before = microphone, clip, turns_before
        self._lock = threading.Lock()
        self._recording: Pcm16 | None = None
        self.in_call = microphone.in_call
        microphone.suspended = True
        self._loopback = Loopback(_Caller(microphone), clip).start()

    def step(self, snapshot: Snapshot) -> bool:
        """Whether it is over; ends it once the reply to the clip has ended."""
        over_for = snapshot.at - self._loopback.started_at - len(self._clip) / CAPTURE_RATE
        new = snapshot.turns and snapshot.turns[-1].number > self._before
        settled = new and snapshot.turns[-1].ended and not snapshot.speaking and over_for > SETTLE_S
        if settled or (not new and over_for > GIVE_UP_S):
            self._loopback.hang_up()
        if self._loopback.done:
            self._microphone.suspended = False
        return self._loopback.done

    def stop(self) -> None:
        self._loopback.hang_up()
        self._loopback.join(1.0)
        self._microphone.suspended = False

    def recording(self) -> Pcm16 | None:
        """Caller and reply as they happened, 48 kHz mono; None when no reply sounded here."""
        with self._lock:
            if self._recording is None:
                self._recording = as_heard(self._clip, self._loopback.played().reply)
            return self._recording if len(self._recording) else None


def as_heard(clip: Samples, reply: Pcm16) -> Pcm16:
    """The clip (16 kHz float) and what was pulled meanwhile (48 kHz), laid over each other on one time axis.

    Empty when the reply holds no sound. What follows the last sound is cut.
    """
    sounding = np.flatnonzero(reply)
    if not len(sounding):
        return np.zeros(0, np.int16)
    from pipeline.audio import resample, to_int16

    caller = to_int16(resample(clip, CAPTURE_RATE, PLAYOUT_RATE)).astype(np.int32)
    end = max(len(caller), int(sounding[-1]) + 1 + int(_GAP_AFTER_S * PLAYOUT_RATE))
    both = np.zeros(end, np.int32)
    both[: len(caller)] += caller
    heard = reply[:end].astype(np.int32)
    both[: len(heard)] += heard
    return np.clip(both, -32768, 32767).astype(np.int16)


def as_wav(samples: Pcm16, rate: int = PLAYOUT_RATE) -> bytes:
    """A mono 16-bit WAV file. (st.audio given an array would make every clip equally loud.)"""
    import io
    import wave

    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return out.getvalue()
