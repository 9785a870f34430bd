"""Fun-CosyVoice 3 (Apache-2.0): Mandarin, its dialects and eight more languages, in a voice out of a recording, 24 kHz.

What a voice and a manner cost at the front end (the recording's tokens and features) is paid once: each voice, and
each manner of it, is registered with the model under a name of its own, "voice/manner". Those of
`settings.manners` are at warm-up, so that switching to one of them costs nothing; any other at its first phrase.

Only the instructions that the model was trained on can be asked for, one at a time: a Style names one of manners.py.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.clock import SystemClock
from pipeline.engines.cosyvoice_checkout import HOME, load
from pipeline.engines.cosyvoice_ground import Mended
from pipeline.engines.hub import locate_model
from pipeline.engines.registry import Kind, row
from pipeline.engines.sound import Shape
from pipeline.engines.tempo import Tempo
from pipeline.errors import Code, EngineError
from pipeline.manners import MANNERS
from pipeline.phrases import speakable
from pipeline.ports import Cancel, EngineOptions, Samples, Style, never
from pipeline.voices import DEFAULT, Voice, voices

_TOKENS_PER_S = 25
_ROLE = "You are a helpful assistant."
_END = "<|endofprompt|>"  # without it the model's thread dies
_MARKS = re.compile(r"<\|.*?\|>|</?(?:strong|laughter)>")  # would be obeyed, not read
_LONGEST_PROMPT_S = 30  # upstream refuses more
_AUDIBLE = 10.0 ** (-45.0 / 20.0)
_PATIENCE = 0.9  # of the session's own: the engine's error says more than the watchdog's
_HELLO = "你好，很高兴为您服务。"

_log = logging.getLogger(__name__)


class CosyVoice3:
    """The shared model; one phrase at a time, whoever asks."""

    name = "cosyvoice3"
    shortest = 3  # characters: of less the model may make nothing

    def __init__(self, mended: Mended, known: Mapping[str, Voice], options: EngineOptions) -> None:
        self._mended = mended
        self._voices = known
        self._settings = options.settings
        self._cache = options.cache / "voices"
        self._progress = options.progress
        self._prompts: dict[str, Path] = {}
        self._registered: set[str] = set()
        self._registering = threading.Lock()
        self.rate = mended.rate

    def warm_up(self) -> None:
        """Register the voice in its own way and in `settings.manners`, and speak once.

        EngineError UNKNOWN_MANNER for a name that is none; TTS_FAILED when the model cannot be run.
        """
        asked = [name.strip() for name in self._settings.manners.split(",") if name.strip()]
        voice = self._voice(self._settings.voice)
        for i, manner in enumerate(["", *(_known(name) for name in asked)]):
            self._progress(f"{voice.name}/{manner}".rstrip("/"), i / (len(asked) + 1))
            self._speaker(voice, manner, early=True)
        Tempo(self.rate, 1.0)  # its library takes a third of a second to load
        for _ in self.speak(_HELLO, Style(voice=voice.name), never):
            pass

    def speak(self, phrase: str, style: Style, cancel: Cancel) -> Iterator[Samples]:
        """Pieces of at most 200 ms; nothing for a phrase with nothing to say.

        A phrase under `shortest` characters is tried, and left out with a line in the log where the model makes
        nothing of it. EngineError TTS_FAILED (no such voice, or the model failed), UNKNOWN_MANNER, TTS_TIMEOUT,
        TTS_EMPTY.
        """
        text = _MARKS.sub("", phrase).strip()
        voice, manner = self._voice(style.voice), _known(style.manner)
        if not speakable(text) or cancel():
            return
        speaker = self._speaker(voice, manner)
        shape, given = Shape(self.rate), 0
        sounds = self._sounds(text, speaker, manner, style.speed, cancel)
        try:
            for sound in sounds:
                for piece in shape.feed(sound):
                    if cancel():
                        return
                    given += piece.size
                    yield piece
            if not cancel():
                yield from shape.finish()
        except EngineError as error:
            if given or len(text) >= self.shortest:
                raise
            _log.warning("left out %r, too short for the model: %s", text, error)
            return
        finally:
            sounds.close()  # type: ignore[attr-defined]
        if not given and not cancel():
            self._silent(text)

    def _sounds(self, text: str, speaker: str, manner: str, speed: float, cancel: Cancel) -> Iterator[Samples]:
        """The model's chunks at the pace asked for: upstream ignores `speed` while it streams."""
        patience = _PATIENCE * self._settings.tts_timeout_s

        def begin(upstream: Any) -> Iterator[Any]:
            # The speaker brings its prompt: what stands in these two places would be dropped.
            infer = upstream.inference_instruct2 if manner else upstream.inference_zero_shot
            spoken: Iterator[Any] = infer(text, "", "", zero_shot_spk_id=speaker, stream=True, text_frontend=False)
            return spoken

        chunks = self._mended.stream(begin, cancel, patience, f"cosyvoice3 {speaker}")
        if speed == 1.0:
            yield from chunks
            return
        tempo = Tempo(self.rate, speed)
        try:
            for chunk in chunks:
                yield tempo.feed(chunk)
            yield tempo.finish()
        finally:
            chunks.close()  # type: ignore[attr-defined]

    def _silent(self, text: str) -> None:
        if len(text) >= self.shortest:
            raise EngineError(Code.TTS_EMPTY, f"CosyVoice made no sound of {text[:40]!r}", "ask again")
        _log.warning("left out %r: too short for the model, it made no sound", text)

    # -- who speaks, and how

    def _voice(self, name: str) -> Voice:
        voice = self._voices.get(name or DEFAULT)
        if voice is None:
            known = ", ".join(sorted(self._voices)) or "none"
            raise EngineError(Code.TTS_FAILED, f"there is no voice {name or DEFAULT!r}", f"in assets/voices: {known}")
        return voice

    def _speaker(self, voice: Voice, manner: str, early: bool = False) -> str:
        """The name under which the model knows this voice speaking in this manner."""
        speaker = f"{voice.name}/{manner}" if manner else voice.name
        if speaker in self._registered:
            return speaker
        with self._registering:
            if speaker in self._registered:
                return speaker
            clock = SystemClock()
            began = clock.now()
            try:
                self._mended.register(_prompt(voice, manner), str(self._prompt_wav(voice)), speaker)
            except Exception as error:
                raise EngineError(Code.TTS_FAILED, f"CosyVoice cannot take the voice {speaker}: {error}") from error
            self._registered.add(speaker)
            if not early:
                spent = (clock.now() - began) * 1e3
                _log.warning("%s was not prepared: its first phrase waited %.0f ms (see `manners`)", speaker, spent)
        return speaker

    def _prompt_wav(self, voice: Voice) -> Path:
        if voice.name not in self._prompts:
            hop = self._settings.first_hop_tokens / _TOKENS_PER_S
            self._prompts[voice.name] = prompt_wav(voice.audio, self._cache, hop)
        return self._prompts[voice.name]


def _known(manner: str) -> str:
    """The manner's name, if the model was trained on it; "" is the voice as it is."""
    if manner and manner not in MANNERS:
        what = f"the voice cannot speak in the manner {manner!r}"
        raise EngineError(Code.UNKNOWN_MANNER, what, f"one of: {', '.join(MANNERS)}")
    return manner


def _prompt(voice: Voice, manner: str) -> str:
    """What precedes the text: in the voice's own way its transcript, in another the instruction alone."""
    if manner:
        return f"{_ROLE} {MANNERS[manner].instruction}{_END}"
    return f"{_ROLE}{_END}{voice.transcript}"


def prompt_wav(audio: Path, folder: Path, hop_s: float) -> Path:
    """The recording as a wav file in `folder`, without silence around it, a whole number of hops long.

    Upstream rounds the prompt up to whole hops and makes everybody's first chunk wait for the difference. No word is
    cut off: the last hop is filled up with silence. EngineError TTS_FAILED for a recording that cannot be used.
    """
    import soundfile

    remedy = "use 3 to 10 seconds of clear speech, 16 kHz or more"
    try:
        frames, rate = soundfile.read(audio, dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, OSError) as error:
        raise EngineError(Code.TTS_FAILED, f"the recording {audio.name} cannot be read: {error}", remedy) from error
    speech = frames.mean(axis=1)
    loud = np.flatnonzero(np.abs(speech) > _AUDIBLE)
    if rate < 16_000 or not loud.size:
        raise EngineError(Code.TTS_FAILED, f"the recording {audio.name} is silent or below 16 kHz", remedy)
    speech = speech[loud[0] : loud[-1] + 1]
    hops = int(np.ceil(speech.size / rate / hop_s))
    if hops * hop_s > _LONGEST_PROMPT_S:
        raise EngineError(Code.TTS_FAILED, f"the recording {audio.name} is longer than 30 s", remedy)
    whole = np.zeros(round(hops * hop_s * rate), np.float32)
    whole[: speech.size] = speech
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(audio.read_bytes()).hexdigest()[:12]
    path = folder / f"{audio.stem}-{digest}-{round(hop_s * 1e3)}.wav"
    soundfile.write(path, whole, rate, subtype="PCM_16")
    return path


def build(options: EngineOptions) -> CosyVoice3:
    (model,) = row(Kind.TTS, CosyVoice3.name).models
    home = options.secret(HOME)
    weights = locate_model(model, options) if home else Path()
    upstream = load(home, weights, options.settings.device)
    return CosyVoice3(Mended(upstream, options.settings.first_hop_tokens), voices(), options)
