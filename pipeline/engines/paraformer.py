"""Mandarin and more by FunASR: Paraformer writes along while the caller speaks; the text of a pause is made anew.

`paraformer` puts punctuation to Paraformer's own words (ct-punc). `sensevoice` lets SenseVoice hear the whole utterance
again: Cantonese, Japanese and Korean too, numbers in digits, and how the caller sounded.

Paraformer holds back its last character until it is told that the audio ends, and what it is told then cannot be taken
back. A pause is no end: the caller may go on. So a pause is written out on a copy of the visitor's cache.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pipeline.engines.funasr_ground import Model, clean, load
from pipeline.engines.hub import locate_model
from pipeline.engines.registry import Kind, row
from pipeline.errors import Code
from pipeline.ports import CAPTURE_RATE, EngineOptions, Samples

_LOOK_BACK = {"encoder_chunk_look_back": 4, "decoder_chunk_look_back": 1}  # windows, as the model was trained
_SILENCE = 1e-4  # peak, -80 dBFS: below it there is nothing to write
_SHORTEST = CAPTURE_RATE // 10  # samples: less holds no word
_TAG = re.compile(r"<\|([^|>]*)\|>")
_LANGUAGES = ("zh", "yue", "en", "ja", "ko")
_NO_SPEECH = "nospeech"
_EMOTIONS = {
    tag: tag.lower() for tag in ("HAPPY", "SAD", "ANGRY", "NEUTRAL", "FEARFUL", "DISGUSTED", "SURPRISED")
}  # EMO_UNKNOWN is left out: it is no emotion


@dataclass(frozen=True, slots=True)
class Heard:
    """The best text of an utterance so far."""

    text: str = ""
    emotion: str = ""  # "happy", "neutral", ...; "" where it is not known
    language: str = ""  # what SenseVoice took it for


class Writer:
    """Paraformer, streaming. `more` and `rest` take and return tokens; they are never revised."""

    def __init__(self, model: Model, chunk: Sequence[int]) -> None:
        self._model = model
        self._chunk = list(chunk)

    def more(self, samples: Samples, cache: dict[str, Any]) -> list[str]:
        """The tokens of the windows that `samples` fill up. The cache is the visitor's, {} at the beginning."""
        return self._write(samples, cache, is_final=False)

    def rest(self, cache: dict[str, Any]) -> list[str]:
        """The tokens still held back, as if the audio ended here. The cache is left as it was.

        The copy is deep because the library scales cached features in place.
        """
        return self._write(np.zeros(0, np.float32), copy.deepcopy(cache), is_final=True)

    def _write(self, samples: Samples, cache: dict[str, Any], is_final: bool) -> list[str]:
        kept = _Kept(self._model.settings["tokenizer"])
        how = {"cache": cache, "is_final": is_final, "chunk_size": self._chunk, "tokenizer": kept, **_LOOK_BACK}
        self._model.infer(samples, **how)
        return kept.tokens


class _Kept:
    """A tokenizer that remembers its answers.

    The text that the library makes of one call's tokens cannot be added up: a call may end in half an English word,
    and no space is left between the words of two calls.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.tokens: list[str] = []

    def ids2tokens(self, ids: Sequence[int]) -> list[str]:
        made = list(self._tokenizer.ids2tokens(ids))
        self.tokens += made
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


def words(tokens: Sequence[str]) -> str:
    """The text of all tokens of an utterance: Chinese without spaces, English pieces ("hel@@", "lo") joined."""
    from funasr.utils.postprocess_utils import sentence_postprocess

    if not tokens:
        return ""
    text, _ = sentence_postprocess([*tokens[:-1], tokens[-1].removesuffix("@@")])
    return str(text).strip()


class Best(Protocol):
    """Makes the text of a pause."""

    needs_rest: bool  # whether Paraformer's last tokens are wanted

    def of(self, tokens: Sequence[str], audio: Samples, language: str) -> Heard: ...


class Punctuation:
    """ct-punc: commas, full stops and question marks, which tell what is a question."""

    needs_rest = True

    def __init__(self, model: Model) -> None:
        self._model = model

    def of(self, tokens: Sequence[str], audio: Samples, language: str) -> Heard:
        text = words(tokens)
        if not text:
            return Heard()
        marked = str(self._model.infer(text)["text"])
        return Heard(marked.replace("<unk>", "").strip())  # it is in the model's list of marks


class SenseVoice:
    """The whole audio heard again, with the language that is expected."""

    needs_rest = False

    def __init__(self, model: Model) -> None:
        self._model = model

    def of(self, tokens: Sequence[str], audio: Samples, language: str) -> Heard:
        spoken = language.lower().partition("-")[0]
        how = {"language": spoken if spoken in _LANGUAGES else "auto", "use_itn": True}
        return parsed(str(self._model.infer(audio, **how)["text"]))


def parsed(raw: str) -> Heard:
    """SenseVoice's answer, "<|zh|><|HAPPY|><|Speech|><|withitn|>...", with every tag taken out of the text."""
    tags = _TAG.findall(raw)
    text = _TAG.sub("", raw).replace("\u2047", "").strip()  # the tokenizer's sign for a piece it has no text for
    emotion = next((_EMOTIONS[tag] for tag in tags if tag in _EMOTIONS), "")
    language = next((tag for tag in tags if tag in _LANGUAGES), "")
    if _NO_SPEECH in tags or not any(c.isalnum() for c in text):
        return Heard()
    return Heard(text, emotion, language)


class ParaformerHearing:
    """One utterance of one visitor."""

    def __init__(self, writer: Writer, best: Best, language: str) -> None:
        self._writer, self._best, self._language = writer, best, language
        self._cache: dict[str, Any] = {}
        self._tokens: list[str] = []
        self._audio: list[Samples] = []
        self._unread = 0  # pieces of it that the writer has not had
        self._loud, self._size = False, 0
        self._heard: Heard | None = Heard()  # None: more was fed since

    @property
    def emotion(self) -> str:
        """Of the last pause."""
        return "" if self._heard is None else self._heard.emotion

    def feed(self, samples: Samples) -> None:
        piece = clean(samples)
        if not piece.size:
            return
        self._audio.append(piece)
        self._unread += 1
        self._size += piece.size
        self._loud = self._loud or float(np.abs(piece).max()) >= _SILENCE
        self._heard = None

    def partial(self) -> str:
        """What Paraformer has written so far, without punctuation; the last character may be missing."""
        if not self._audible:
            return ""
        if self._unread:
            self._tokens += self._writer.more(np.concatenate(self._audio[-self._unread :]), self._cache)
            self._unread = 0
            if self._best.needs_rest:  # nobody hears it again
                self._audio.clear()
        return words(self._tokens)

    def settled(self) -> str:
        """The best text so far. Costs nothing when nothing was fed since it was last asked for."""
        if self._heard is None:
            self._heard = self._hear() if self._audible else Heard()
        return self._heard.text

    def finish(self) -> str:
        return self.settled()

    @property
    def _audible(self) -> bool:
        return self._loud and self._size >= _SHORTEST

    def _hear(self) -> Heard:
        if not self._best.needs_rest:
            return self._best.of((), np.concatenate(self._audio), self._language)
        self.partial()
        tokens = [*self._tokens, *self._writer.rest(self._cache)]
        return self._best.of(tokens, np.zeros(0, np.float32), self._language)


class Paraformer:
    """The engine of both rows; each utterance takes a `listen`."""

    def __init__(self, name: str, writer: Writer, best: Best) -> None:
        self.name = name
        self._writer, self._best = writer, best

    def warm_up(self) -> None:
        hearing = self.listen()
        hearing.feed(np.random.default_rng(0).normal(0.0, 0.05, CAPTURE_RATE).astype(np.float32))
        hearing.partial()
        hearing.settled()
        self._best.of(("你", "好"), np.zeros(CAPTURE_RATE, np.float32), "")  # noise may have had no words

    def listen(self, language: str = "") -> ParaformerHearing:
        """`language` matters to SenseVoice alone: "" lets it find out; "yue" is Cantonese."""
        return ParaformerHearing(self._writer, self._best, language)


def _built(name: str, best: type[Punctuation] | type[SenseVoice], options: EngineOptions) -> Paraformer:
    # All of them are located before anything is imported: what is missing is said at once.
    folders = [locate_model(model, options) for model in row(Kind.ASR, name).models]
    streaming, second = (load(folder, options, Code.ASR_FAILED) for folder in folders)
    chunk = [int(frames) for frames in options.settings.paraformer_chunk.split(",")]
    return Paraformer(name, Writer(streaming, chunk), best(second))


def build_paraformer(options: EngineOptions) -> Paraformer:
    return _built("paraformer", Punctuation, options)


def build_sensevoice(options: EngineOptions) -> Paraformer:
    return _built("sensevoice", SenseVoice, options)
