"""One way to open an onnxruntime session: few threads, none of them spinning.

Source of the settings: measured with a language model on the same cores. onnxruntime's idle threads spin by default
and take the cores from whatever runs next; without spinning a call is about as fast and the next stage much faster.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.errors import Code, EngineError


def open_session(path: Path, threads: int) -> Any:
    """An onnxruntime InferenceSession on the CPU; safe to run from several threads at once.

    EngineError WEIGHTS_CORRUPT when this onnxruntime cannot load the file.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors: the models at hand warn about unused initialisers at each load
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises a dozen unrelated classes here
        what = f"onnxruntime {onnxruntime.__version__} cannot load {path.name}: {str(error)[:160]}"
        raise EngineError(Code.WEIGHTS_CORRUPT, what, "install the pinned onnxruntime and weights again") from error
