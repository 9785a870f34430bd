"""A Llama model out of a GGUF as a graph for onnxruntime, its numbers exactly those of the file.

onnxruntime's four-bit matrices (MatMulNBits) know a scale and a whole zero point for 32 numbers; Q4_1 has a scale and
any least value. So each matrix is taken apart: steps around 8 go to the fast kernel, and what the least value differs
by is a thin matrix on the sums of 32 inputs. Rounding the least value to a step instead lost a tenth of a fact's
words (docs/performance.md). Attention is onnxruntime's GroupQueryAttention on a buffer that it fills in place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.engines.gguf_file import BLOCK, Tensor

EMBEDDINGS, HELD, TOTAL, SCORES = "embeddings", "held", "total", "scores"
_MS = "com.microsoft"
_INT8 = 4  # MatMulNBits' accuracy level: inputs are rounded to eight bits in blocks of 32, as llama.cpp does
_OPSET, _IR = 21, 10


class Shape(NamedTuple):
    """What a caller must know of the model to keep its keys and values."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    head: int  # numbers of one head


def cache_names(layers: int) -> tuple[list[str], list[str]]:
    """Inputs and outputs that hold keys and values, layer by layer: (1, kv_heads, context, head) float32 each."""
    kinds = [f"{layer}.{kind}" for layer in range(layers) for kind in ("key", "value")]
    return [f"past.{k}" for k in kinds], [f"present.{k}" for k in kinds]


def shape_of(meta: dict[str, Any]) -> Shape:
    """From a GGUF's metadata. KeyError for an architecture that is not Llama's."""
    width, heads = int(meta["llama.embedding_length"]), int(meta["llama.attention.head_count"])
    kv_heads = int(meta["llama.attention.head_count_kv"])
    return Shape(width, int(meta["llama.block_count"]), heads, kv_heads, width // heads)


def graph(meta: dict[str, Any], weights: dict[str, Tensor], context: int) -> bytes:
    """The model as ONNX. KeyError for an architecture that is not Llama's. ImportError without onnx.

    Inputs: embeddings (new, width) float32; held (1,) int32, tokens before and with the new ones, less one; total ()
    int32, the same and one more; and the past of cache_names, bound to the same memory as the present among the
    outputs. Output: the scores (1, words) after the last of the new tokens.
    """
    return _Llama(meta, weights, context).model()


class _Llama:
    """Inside, what flows is (new, numbers): a conversation at a time."""

    def __init__(self, meta: dict[str, Any], weights: dict[str, Tensor], context: int) -> None:
        import onnx

        self._onnx, self._weights, self._context = onnx, weights, context
        self._shape = shape_of(meta)
        self._epsilon = float(meta["llama.attention.layer_norm_rms_epsilon"])
        self._base = float(meta["llama.rope.freq_base"])
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def model(self) -> bytes:
        self._turns()
        seen = self._op("SimplifiedLayerNormalization", [EMBEDDINGS, self._scale("blk.0.attn_norm")], **self._norm())
        x = EMBEDDINGS
        for layer in range(self._shape.layers):
            after = f"blk.{layer + 1}.attn_norm" if layer + 1 < self._shape.layers else "output_norm"
            found = self._attention(seen, layer)
            seen, x = self._joined(x, found, f"blk.{layer}.ffn_norm")
            seen, x = self._joined(x, self._thought(seen, f"blk.{layer}."), after)
        last = self._op("Slice", [seen, self._ints(-1), self._ints(np.iinfo(np.int64).max), self._ints(0)])
        self._words(last)
        return self._whole()

    def _attention(self, seen: str, layer: int) -> str:
        shape, block = self._shape, f"blk.{layer}."
        asked = self._linear(seen, [f"{block}attn_{part}" for part in "qkv"])
        asked = self._op("Reshape", [asked, self._ints(1, -1, shape.width + 2 * shape.kv_heads * shape.head)])
        (past_key, past_value), (key, value) = (names[2 * layer : 2 * layer + 2] for names in cache_names(shape.layers))
        found = self._op(
            "GroupQueryAttention",
            [asked, "", "", past_key, past_value, HELD, TOTAL, "cosines", "sines"],
            outputs=[f"{block}found", key, value],
            domain=_MS,
            num_heads=shape.heads,
            kv_num_heads=shape.kv_heads,
            do_rotary=1,
            rotary_interleaved=1,  # llama.cpp turns neighbours
        )
        found = self._op("Reshape", [found, self._ints(-1, shape.width)])
        return self._linear(found, [f"{block}attn_output"])

    def _thought(self, seen: str, block: str) -> str:
        both = self._linear(seen, [f"{block}ffn_gate", f"{block}ffn_up"])
        gate, up = (f"{block}gate", f"{block}up")
        self._op("Split", [both], outputs=[gate, up], axis=1, num_outputs=2)
        gate = self._op("QuickGelu", [gate], domain=_MS, alpha=1.0)  # x * sigmoid(x)
        return self._linear(self._op("Mul", [gate, up]), [f"{block}ffn_down"])

    def _joined(self, x: str, found: str, scale: str) -> tuple[str, str]:
        """The sum normalised, and the sum."""
        names = [f"{scale}.seen", f"{scale}.sum"]
        inputs, outputs = [x, found, self._scale(scale)], [names[0], "", "", names[1]]
        self._op("SkipSimplifiedLayerNormalization", inputs, outputs=outputs, domain=_MS, epsilon=self._epsilon)
        return names[0], names[1]

    def _linear(self, x: str, names: list[str]) -> str:
        """x through Q4_1 matrices side by side."""
        parts = [self._weights[f"{name}.weight"].sixteenths() for name in names]
        scales, least, steps = (np.concatenate(part) for part in zip(*parts, strict=True))
        rows, blocks = scales.shape
        name = names[0]
        fours = self._constant(f"{name}.steps", steps[..., 0::2] | steps[..., 1::2] << 4)
        near = self._product(x, fours, self._constant(f"{name}.scales", scales), blocks * BLOCK, rows, bits=4)
        sums = self._op("Reshape", [x, self._ints(-1, blocks, BLOCK)])
        sums = self._op("ReduceSum", [sums, self._ints(-1)], keepdims=0)
        rest = self._constant(f"{name}.rest", np.ascontiguousarray((least + 8 * scales).T))
        return self._op("Gemm", [sums, rest, near])

    def _words(self, seen: str) -> None:
        scales, steps = self._weights["token_embd.weight"].steps()
        rows, blocks = scales.shape
        eights = self._constant("words.steps", (steps.view(np.uint8) ^ 128))
        self._product(
            seen, eights, self._constant("words.scales", scales), blocks * BLOCK, rows, bits=8, outputs=[SCORES]
        )

    def _product(self, x: str, b: str, scales: str, k: int, n: int, bits: int, outputs: list[str] | None = None) -> str:
        wishes = {"K": k, "N": n, "bits": bits, "block_size": BLOCK, "accuracy_level": _INT8}
        return self._op("MatMulNBits", [x, b, scales], outputs=outputs, domain=_MS, **wishes)

    def _turns(self) -> None:
        half = self._shape.head // 2
        speeds = self._base ** (-np.arange(half) / half)
        angles = np.arange(self._context)[:, None] * speeds
        self._constant("cosines", np.cos(angles).astype(np.float32))
        self._constant("sines", np.sin(angles).astype(np.float32))

    def _scale(self, name: str) -> str:
        return self._constant(f"{name}.scale", self._weights[f"{name}.weight"].floats())

    def _norm(self) -> dict[str, Any]:
        return {"axis": -1, "epsilon": self._epsilon, "stash_type": 1}

    def _ints(self, *numbers: int) -> str:
        return self._constant(f"ints{len(self._constants)}", np.array(numbers, np.int64))

    def _constant(self, name: str, numbers: npt.NDArray[Any]) -> str:
        self._constants.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(numbers), name))
        return name

    def _op(self, kind: str, inputs: list[str], outputs: list[str] | None = None, **wishes: Any) -> str:
        """Adds a node; the name of its first output."""
        made = outputs or [f"{kind}{len(self._nodes)}"]
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, made, **wishes))
        return made[0]

    def _whole(self) -> bytes:
        helper, kinds, shape = self._onnx.helper, self._onnx.TensorProto, self._shape
        keys = [1, shape.kv_heads, self._context, shape.head]
        past, present = cache_names(shape.layers)
        inputs = [(EMBEDDINGS, kinds.FLOAT, ["new", shape.width]), (HELD, kinds.INT32, [1]), (TOTAL, kinds.INT32, [])]
        inputs += [(name, kinds.FLOAT, keys) for name in past]
        outputs = [(SCORES, kinds.FLOAT, [1, None]), *((name, kinds.FLOAT, keys) for name in present)]
        whole = helper.make_graph(
            self._nodes,
            "llama",
            [helper.make_tensor_value_info(*i) for i in inputs],
            [helper.make_tensor_value_info(*o) for o in outputs],
            self._constants,
        )
        versions = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_MS, 1)]
        return bytes(helper.make_model(whole, opset_imports=versions, ir_version=_IR).SerializeToString())
