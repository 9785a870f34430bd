"""Makes, out of the one GGUF that ships, the weights that the other runtimes want: `compare_llm.py prepare DIR`.

The only weights at hand are Q4_1. Everything else is made from those numbers written out as float32, so a way with
more bits cannot be better than Q4_1 here; it can only be faster, or worse.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

PINS = {
    "xllamacpp": "xllamacpp==2026.10.11549",
    "ctranslate2": "ctranslate2==4.8.5",
    "openvino_genai": "openvino-genai==2026.4.1.0",
    "onnxruntime_genai": "onnxruntime-genai==0.18.0",
    "transformers": "transformers==5.23.0",
    "torch": "torch==2.13.0",
    "tokenizers": "tokenizers==0.23.3",
    "accelerate": "accelerate==1.15.0",
    "gguf": "gguf==0.19.0",
    "onnx": "onnx==1.23.2",
    "onnx_ir": "onnx-ir==1.1.0",
}
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def prepare(shipped: Path, folder: Path) -> None:
    """Fill `folder` with hf/, ct2/, three folders ort-.../ and three GGUF files (1.8 GB). What is there stays."""
    folder.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[Path], None]] = {
        "hf": lambda to: _hf(shipped, to),
        "ct2": lambda to: _ct2(folder / "hf", to),
        "ort-int4": lambda to: _ort(folder / "hf", to, "int4"),
        "ort-int4-k": lambda to: _ort(folder / "hf", to, "int4", "algo_config=k_quant_last"),  # the last matrix int8
        "ort-int8": lambda to: _ort(folder / "hf", to, "int8"),
        "q8_0.gguf": lambda to: requantise(shipped, to, "Q8_0"),
        "q5_0.gguf": lambda to: requantise(shipped, to, "Q5_0"),
        "q4_0.gguf": lambda to: requantise(shipped, to, "Q4_0"),
    }
    for name, make in makers.items():
        if (folder / name).exists():
            print(f"{name}: already there")
            continue
        half = folder / f"{name}.half"  # a run that was interrupted leaves no half-made weights under the right name
        make(half)
        half.rename(folder / name)
        print(f"{name}: made")


def _hf(shipped: Path, to: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    where = {"gguf_file": shipped.name}
    read = AutoModelForCausalLM.from_pretrained(str(shipped.parent), dtype=torch.float32, **where)
    config = read.config
    del config.quantization_config  # else it counts as quantised and cannot be saved
    plain = LlamaForCausalLM(config).float()
    plain.load_state_dict(read.state_dict())
    plain.tie_weights()
    plain.save_pretrained(to)
    AutoTokenizer.from_pretrained(str(shipped.parent), **where).save_pretrained(to)


def _ct2(hf: Path, to: Path) -> None:
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(hf)).convert(str(to), quantization="int8")


def _ort(hf: Path, to: Path, precision: str, *extra: str) -> None:
    builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-m", str(hf), "-i", str(hf)]
    chosen = ["--extra_options", *extra] if extra else []
    done = subprocess.run(
        [*builder, "-o", str(to), "-p", precision, "-e", "cpu", "-c", str(to.parent / "cache"), *chosen],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"the builder of onnxruntime-genai failed: {done.stderr[-800:]}")


def requantise(shipped: Path, to: Path, kind: str) -> None:
    """The 4-bit matrices as `kind`, by llama.cpp's own rounding; norms and the Q8_0 embeddings stay as they are."""
    import numpy as np
    from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType
    from gguf.quants import dequantize, quantize

    source, wanted = GGUFReader(shipped), GGMLQuantizationType[kind]
    with contextlib.redirect_stdout(io.StringIO()):
        out = GGUFWriter(to, "llama")
        for key, entry in source.fields.items():
            if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
                continue
            inner = entry.types[-1] if entry.types[0] == GGUFValueType.ARRAY else None
            out.add_key_value(key, entry.contents(), entry.types[0], sub_type=inner)
        out.add_file_type(LlamaFileType[f"MOSTLY_{kind}"])
        for tensor in source.tensors:
            if tensor.tensor_type == GGMLQuantizationType.Q4_1:
                floats = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
                out.add_tensor(tensor.name, quantize(floats, wanted), raw_dtype=wanted)
            else:
                out.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        out.write_header_to_file()
        out.write_kv_data_to_file()
        out.write_tensors_to_file()
        out.close()
