"""English speech to text by Moonshine tiny (MIT): its .ort files out of the wheel, run through onnxruntime alone.

Source of the calling convention: the merged encoder-decoder export (6 layers, 8 heads of 36) and the wheel's own
tokenizer file. Moonshine cannot stream, so a partial decodes all audio again; what makes that cheap is that the text
of the last partial is offered to the decoder as a guess and only checked, in one pass instead of one pass a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.engines import ort
from pipeline.engines.registry import Kind, row
from pipeline.engines.weights import locate_all
from pipeline.errors import Code, EngineError
from pipeline.ports import CAPTURE_RATE, EngineOptions, Samples

_BEGIN, _END = 1, 2
_HEADS, _HEAD_SIZE = 8, 36
_SHORTEST = CAPTURE_RATE // 4  # samples: shorter audio is padded, the encoder needs some frames
_LONGEST = 12 * CAPTURE_RATE  # samples decoded at once: longer windows measured slower and no better
_CUT_FROM = 6 * CAPTURE_RATE  # a longer utterance is cut at its quietest place after this
_CUT_WINDOW = CAPTURE_RATE // 20
_SILENCE = 1e-4  # peak, -80 dBFS: below it there is nothing to decode
_TOKENS_PER_S = 7.0  # fast English is about 5; more is a loop, not speech
_TOKENS_SPARE = 5
_UNSURE = -0.9  # mean log-probability: speech measured -0.7 and up, noise mostly below (a lone "You" is the exception)


@dataclass(frozen=True, slots=True)
class Decoded:
    """What the model made of one piece of audio."""

    tokens: tuple[int, ...] = ()  # begin and end marks left out
    confidence: float = 0.0  # mean log-probability of the tokens and the end mark


class Decoder:
    """The shared weights. `decode` keeps nothing between calls, so visitors cannot touch each other."""

    def __init__(self, encoder: Any, decoder: Any, pieces: Sequence[bytes]) -> None:
        self._encoder = encoder
        self._decoder = decoder
        self._pieces = pieces
        self._past = [i.name for i in decoder.get_inputs() if i.name.startswith("past_key_values")]

    def decode(self, samples: Samples, guess: Sequence[int] = ()) -> Decoded:
        """Greedy tokens of shape (n,) at 16 kHz, n <= 12 s.

        `guess` is what it probably is: a right one saves time, a wrong one does no harm (the weights are int8, so
        checking many tokens at once rounds a little differently and may turn a near tie, a comma for a full stop).
        EngineError ASR_FAILED when the model cannot be run.
        """
        if samples.size == 0 or float(np.abs(samples).max()) < _SILENCE:
            return Decoded()
        limit = int(samples.size / CAPTURE_RATE * _TOKENS_PER_S) + _TOKENS_SPARE
        audio = np.pad(samples, (0, max(0, _SHORTEST - samples.size)))[None]
        mask = np.ones(audio.shape, np.int64)
        try:
            (hidden,) = self._encoder.run(None, {"input_values": audio, "attention_mask": mask})
            return self._decode({"encoder_hidden_states": hidden, "encoder_attention_mask": mask}, guess, limit)
        except Exception as error:
            raise EngineError(Code.ASR_FAILED, f"moonshine: {error}") from error

    def _decode(self, heard: dict[str, Any], guess: Sequence[int], limit: int) -> Decoded:
        past = {name: np.zeros((0, _HEADS, 1, _HEAD_SIZE), np.float32) for name in self._past}
        asked = [_BEGIN, *guess[: limit - 1]]
        logits, present = self._step(heard, asked, past, cached=False)
        said, scores = _likeliest(logits)
        agreed = next((i for i, token in enumerate(asked[1:]) if token != said[i]), len(asked) - 1)
        past = {
            name: value[:, :, : agreed + 1] if ".decoder." in name else value
            for name, value in zip(self._past, present, strict=True)
        }
        tokens, scores = said[: agreed + 1], scores[: agreed + 1]
        while tokens[-1] != _END and len(tokens) < limit and without_loop(tokens) is None:
            logits, present = self._step(heard, tokens[-1:], past, cached=True)
            # The audio's keys come back empty from the cached branch: the first ones stay.
            past |= {n: v for n, v in zip(self._past, present, strict=True) if ".decoder." in n}
            token, score = _likeliest(logits)
            tokens, scores = tokens + token, scores + score
        kept = without_loop(tokens) or tokens
        return Decoded(tuple(t for t in kept if t != _END), sum(scores) / len(scores))

    def _step(
        self, heard: dict[str, Any], tokens: Sequence[int], past: dict[str, Any], cached: bool
    ) -> tuple[npt.NDArray[np.float32], list[Any]]:
        """Logits of shape (len(tokens), 32768) and the present keys and values."""
        ids = np.array([tokens], np.int64)
        logits, *present = self._decoder.run(
            None, {"input_ids": ids, "use_cache_branch": np.array([cached]), **heard, **past}
        )
        return logits[0], present

    def text(self, decoded: Decoded) -> str:
        """The words; "" when there is no letter or digit among them, or the model itself hardly believes them."""
        if decoded.confidence < _UNSURE:
            return ""
        joined = b"".join(self._pieces[t] for t in decoded.tokens).decode("utf-8", "replace")
        words = joined.replace("\u2581", " ").strip()
        return words if any(c.isalnum() for c in words) else ""


def _likeliest(logits: npt.NDArray[np.float32]) -> tuple[list[int], list[float]]:
    """For logits of shape (n, vocabulary): the n likeliest tokens and their log-probabilities."""
    top = logits.max(axis=-1, keepdims=True)
    scores = -np.log(np.exp(logits - top).sum(axis=-1))
    return logits.argmax(axis=-1).tolist(), scores.tolist()


def without_loop(tokens: list[int]) -> list[int] | None:
    """`tokens` with the repetition at its end said once, or None when it does not end in one.

    A phone number may well hold "five five five five": one token must come 8 times, a longer run of them 4 times.
    """
    for length in range(1, 13):
        times = 8 if length == 1 else 4
        tail = tokens[-length:]
        if len(tokens) >= length * times and tokens[-length * times :] == tail * times:
            start = len(tokens) - length
            while start >= length and tokens[start - length : start] == tail:
                start -= length
            return tokens[: start + length]
    return None


class MoonshineHearing:
    """One utterance of one visitor. Audio is only appended until a text is asked for."""

    emotion = ""  # it hears words only

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._audio = np.empty(8 * CAPTURE_RATE, np.float32)
        self._size = 0  # samples fed and not settled
        self._settled: list[str] = []  # texts of what lies before the window
        self._window = Decoded()  # what was made of the window last
        self._decoded = 0  # samples of the window it was made from

    def feed(self, samples: Samples) -> None:
        new = np.nan_to_num(np.asarray(samples, np.float32).ravel(), nan=0.0, posinf=1.0, neginf=-1.0)
        end = self._size + new.size
        if end > self._audio.size:
            self._audio = np.concatenate([self._audio[: self._size], np.empty(2 * end - self._size, np.float32)])
        np.clip(new, -1.0, 1.0, out=self._audio[self._size : end])
        self._size = end

    def partial(self) -> str:
        """The text so far. EngineError ASR_FAILED when the model cannot be run."""
        while self._size > _LONGEST:
            self._settle(_quietest(self._audio[_CUT_FROM:_LONGEST]) + _CUT_FROM)
        if self._decoded != self._size:
            self._window = self._decoder.decode(self._audio[: self._size], self._window.tokens)
            self._decoded = self._size
        return " ".join(filter(None, [*self._settled, self._decoder.text(self._window)]))

    def settled(self) -> str:
        """As `partial`, which holds the last word already."""
        return self.partial()

    def finish(self) -> str:
        """As `partial`: costs nothing when nothing was fed since."""
        return self.partial()

    def _settle(self, cut: int) -> None:
        """Decode the first `cut` samples for good and let them go."""
        self._settled.append(self._decoder.text(self._decoder.decode(self._audio[:cut], self._window.tokens)))
        self._audio = self._audio[cut:].copy()
        self._size -= cut
        self._window, self._decoded = Decoded(), 0


def _quietest(audio: Samples) -> int:
    """Index of the middle of the quietest 50 ms."""
    blocks = audio[: audio.size // _CUT_WINDOW * _CUT_WINDOW].reshape(-1, _CUT_WINDOW)
    return int(np.square(blocks).sum(axis=1).argmin()) * _CUT_WINDOW + _CUT_WINDOW // 2


class Moonshine:
    """English recognition; each utterance takes a `listen`."""

    name = "moonshine"

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def warm_up(self) -> None:
        noise = np.random.default_rng(0).normal(0.0, 0.05, CAPTURE_RATE).astype(np.float32)
        self._decoder.decode(noise)
        self._decoder.decode(noise, guess=(_END, _END))

    def listen(self, language: str = "") -> MoonshineHearing:
        return MoonshineHearing(self._decoder)


def read_pieces(path: Path) -> tuple[bytes, ...]:
    """The tokenizer file: for each token its length (one byte, or two from 128 on), then its bytes."""
    raw, at, pieces = path.read_bytes(), 0, []
    while at < len(raw):
        length, at = raw[at], at + 1
        if length >= 128:
            length, at = raw[at] * 128 + length - 128, at + 1
        pieces.append(_spoken(raw[at : at + length]))
        at += length
    return tuple(pieces)


def _spoken(piece: bytes) -> bytes:
    """What a token adds to the text: "<0x41>" is a byte, any other "<...>" is a mark without a sound."""
    if piece.startswith(b"<0x") and len(piece) == 6:
        return bytes([int(piece[3:5], 16)])
    return b"" if piece.startswith(b"<") and piece.endswith(b">") else piece


def build(options: EngineOptions) -> Moonshine:
    encoder, decoder, tokenizer = locate_all(row(Kind.ASR, Moonshine.name).weights, options)
    hears, writes = (ort.open_session(path, options.threads) for path in (encoder, decoder))
    return Moonshine(Decoder(hears, writes, read_pieces(tokenizer)))
