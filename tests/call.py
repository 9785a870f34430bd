"""A call with a session on a ManualClock: say a tone, be quiet, listen. Nothing here sleeps but to let threads run."""

import time

import numpy as np

from pipeline.clock import ManualClock
from pipeline.engines.scripted import ScriptedAsr, ScriptedLlm, ScriptedTts, ScriptedTurnmodel, ScriptedVad
from pipeline.events import TurnEnded
from pipeline.ports import Chunk, Engines
from pipeline.session import Session
from pipeline.settings import Settings

PATIENCE_S = 5.0
STEP = 160  # samples of a 10 ms chunk


class Call:
    """Engines come in by keyword; what is not given answers every call alike."""

    def __init__(self, settings=None, serial=False, openers=False, early=False, apologies=False, **engines):
        self.clock = ManualClock()
        defaults = {
            "vad": ScriptedVad(),
            "turn_model": ScriptedTurnmodel(),
            "asr": ScriptedAsr(),
            "llm": ScriptedLlm(),
            "tts": ScriptedTts(),
        }
        self.engines = Engines(**{**defaults, **engines})
        settings = (settings or Settings()).changed(openers=openers, draft_early=early, apologies=apologies)
        self.session = Session(self.engines, settings, self.clock, serial=serial).start()
        self.rng = np.random.default_rng(1)
        self.heard = []

    def __enter__(self):
        self.settle()
        self.quiet(0.3)
        return self

    def __exit__(self, *_):
        self.session.close()

    def feed(self, samples, settle=True):
        for start in range(0, len(samples), STEP):
            self.clock.advance(0.01)
            self.session.hear(Chunk(samples[start : start + STEP].astype(np.float32), self.clock.now()))
            if start // STEP % 50 == 49:
                self.settle(listening_only=True)
        if settle:
            self.settle()

    def say(self, seconds, settle=True):
        t = np.arange(round(seconds * 16000)) / 16000
        self.feed(0.3 * np.sin(2 * np.pi * 300 * t), settle)

    def quiet(self, seconds, settle=True):
        self.feed(self.rng.normal(0, 1e-4, round(seconds * 16000)), settle)

    def ask(self):
        """One utterance, heard out to its endpoint."""
        self.say(0.6)
        self.quiet(0.15)
        self.quiet(1.0)

    def listen(self, seconds):
        """Pull what the session says, frame by frame."""
        for _ in range(round(seconds * 50)):
            self.clock.advance(0.02)
            self.heard.append(self.session.pull(960))
        self.settle()
        return np.concatenate(self.heard)

    def settle(self, listening_only=False):
        """Let the threads finish what is in their inboxes."""
        stages = self.session._stages[:1] if listening_only else self.session._stages
        until = time.monotonic() + PATIENCE_S
        calm = 0
        while time.monotonic() < until:
            calm = calm + 1 if all(not s.inbox and s.stalled(0) is None for s in stages) else 0
            if calm >= 3:
                return
            time.sleep(0.0005)
        raise AssertionError("the session did not settle")

    def until(self, true, what):
        """Wait for `true()`, moving the clock so that timeouts can pass."""
        stop = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < stop, f"never: {what}"
            self.clock.advance(0.05)
            time.sleep(0.002)

    @property
    def turns(self):
        return self.session.snapshot().turns

    @property
    def last(self):
        return self.turns[-1]

    def ends(self):
        return [e for e in self.session.events()[0] if isinstance(e, TurnEnded)]
