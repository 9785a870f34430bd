"""Reads a GGUF file: its metadata, and its weights as numbers. The format is llama.cpp's, version 2 or 3
(ggml/docs/gguf.md). Only what SmolLM2's file holds is known: float32, Q4_1 and Q8_0, in blocks of 32 along a row.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]

BLOCK = 32  # weights that share a scale
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9
_F32, _Q4_1, _Q8_0 = 0, 3, 8
_BYTES = {_F32: (4, 1), _Q4_1: (20, BLOCK), _Q8_0: (34, BLOCK)}  # of one block, and the weights in it


@dataclass(frozen=True, slots=True)
class Tensor:
    """A weight as it stands in the file."""

    kind: int
    shape: tuple[int, ...]  # outermost first: (rows, columns) of a matrix
    raw: npt.NDArray[np.uint8]

    def floats(self) -> Floats:
        """float32 only: the numbers themselves, in `shape`."""
        if self.kind != _F32:
            raise ValueError("only float32 is made of plain numbers")
        return self.raw.view(np.float32).reshape(self.shape)

    def sixteenths(self) -> tuple[Floats, Floats, npt.NDArray[np.uint8]]:
        """Q4_1 only: scales and least values (rows, blocks), steps 0..15 (rows, blocks, 32): step * scale + least."""
        if self.kind != _Q4_1:
            raise ValueError("only Q4_1 is made of a scale, a least value and steps")
        blocks = self._blocks()
        packed = blocks[..., 4:]  # the first half of a block lies in the low four bits
        return _halves(blocks[..., :2]), _halves(blocks[..., 2:4]), np.concatenate([packed & 15, packed >> 4], axis=-1)

    def steps(self) -> tuple[Floats, npt.NDArray[np.int8]]:
        """Q8_0 only: scales (rows, blocks) and whole numbers (rows, blocks, 32); a weight is their product."""
        if self.kind != _Q8_0:
            raise ValueError("only Q8_0 is made of a scale and whole numbers")
        blocks = self._blocks()
        return _halves(blocks[..., :2]), np.ascontiguousarray(blocks[..., 2:]).view(np.int8)

    def _blocks(self) -> npt.NDArray[np.uint8]:
        return self.raw.reshape(self.shape[0], self.shape[1] // BLOCK, -1)


def _halves(raw: npt.NDArray[np.uint8]) -> Floats:
    return np.ascontiguousarray(raw).view(np.float16)[..., 0].astype(np.float32)


def read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Metadata and weights by name. OSError, or ValueError for what is no such file."""
    try:
        return _Reader(path.read_bytes()).file()
    except (struct.error, KeyError, ValueError, OverflowError, MemoryError) as error:
        raise ValueError(f"{path.name} is broken or of a kind not known here: {error!r}") from error


class _Reader:
    """A place in the bytes of a file."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def file(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        if self._raw[:4] != b"GGUF":
            raise ValueError("not a GGUF file")
        self._at = 4
        version, tensors, keys = self._one("I"), self._one("Q"), self._one("Q")
        if version not in (2, 3):
            raise ValueError(f"GGUF version {version} is not known here")
        meta = {self._text(): self._value(self._one("I")) for _ in range(keys)}
        heads = []
        for _ in range(tensors):
            name = self._text()
            inner_first = [self._one("Q") for _ in range(self._one("I"))]
            heads.append((name, tuple(reversed(inner_first)), self._one("I"), self._one("Q")))
        align = meta.get("general.alignment", 32)
        start = -(-self._at // align) * align
        return meta, {name: self._tensor(shape, kind, start + at) for name, shape, kind, at in heads}

    def _tensor(self, shape: tuple[int, ...], kind: int, at: int) -> Tensor:
        size, block = _BYTES[kind]
        count = int(np.prod(shape)) // block * size
        return Tensor(kind, shape, np.frombuffer(self._raw, np.uint8, count, at))

    def _value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self._text()
        if kind == _ARRAY:
            inner, count = self._one("I"), self._one("Q")
            return [self._value(inner) for _ in range(count)]
        return self._one(_SCALARS[kind])

    def _text(self) -> str:
        size = self._one("Q")
        self._at += size
        return self._raw[self._at - size : self._at].decode()

    def _one(self, code: str) -> Any:
        (value,) = struct.unpack_from(f"<{code}", self._raw, self._at)
        self._at += struct.calcsize(f"<{code}")
        return value
