"""What the FunASR engines share: its import, models out of a local directory, and a process left as it was found.

Read in funasr 1.4.16: its import and its AutoModel call logging.basicConfig, seed the random generators and set torch's
thread count; `generate` rewrites settings that all callers share, may set the thread count again and empties the GPU's
cache each time. So a model is loaded by AutoModel from a directory (a hub's name would be looked for on the network),
its traces are undone, and its network is asked directly, each call with settings of its own, one call at a time.

All calls of a model run on one thread of its own, on one core: torch keeps a team of spinning threads for every thread
that ever asked it for work, and twenty visitors' teams brought a machine of two cores to a stand.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pipeline.errors import Code, EngineError
from pipeline.ports import EngineOptions, Progress, Samples, no_progress

T = TypeVar("T")

_IMPORTING, _LOADING = "funasr", 0.8  # what progress is told, and its share when the import is over
_LOOK_S = 0.25  # how often the import is looked at
_ALONE = threading.Lock()  # imports and loads one at a time: what they undo is the whole process's


class Model:
    """One AutoModel: shared weights, one thread. What belongs to a visitor is in the cache given with each call."""

    def __init__(self, name: str, auto: Any, code: Code, thread: ThreadPoolExecutor) -> None:
        self.name = name
        self.network = auto.model
        self.settings: Mapping[str, Any] = dict(auto.kwargs)
        self._code = code
        self._thread = thread
        frontend = self.settings.get("frontend")
        if frontend is not None:
            frontend.dither = 0.0  # noise of its own: the same audio would not give the same text

    def run(self, work: Callable[[], T]) -> T:
        """`work()` on the model's thread, without gradients; what it raises becomes an EngineError of this model's."""
        try:
            return self._thread.submit(_without_gradients, work).result()
        except Exception as error:
            what = f"{self.name}: {type(error).__name__}: {error}"
            raise EngineError(self._code, what, "say it again; if it stays so, choose another engine") from error

    def infer(self, given: Samples | str, **how: Any) -> dict[str, Any]:
        """What the network answers to one input. `how` goes over the model's settings, for this call only."""
        # A key of our own: without one the library draws a name from the process's random generator.
        asked = {"data_in": [given], "key": ["-"], **self.settings, **how}
        answers, _ = self.run(lambda: self.network.inference(**asked))
        return dict(answers[0])


def _without_gradients(work: Callable[[], T]) -> T:
    import torch

    with torch.no_grad():
        return work()


def load(folder: Path, options: EngineOptions, code: Code) -> Model:
    """The model in `folder`; `code` is for what goes wrong when it is asked.

    ImportError where a package is missing. EngineError WEIGHTS_CORRUPT for a directory that is none of FunASR's or
    whose weights do not fit, and `code` when the device asked for is not there.
    """
    remedy = f"delete {folder}, then: python -m pipeline download {folder.name}"
    if not (folder / "config.yaml").is_file():
        # Anything but a directory of its own is taken for a hub's name and looked for on the network.
        raise EngineError(Code.WEIGHTS_CORRUPT, f"{folder} holds no config.yaml", remedy)
    auto_model, device = library(options.progress), _device(options, code)
    options.progress(folder.name, _LOADING)
    thread = ThreadPoolExecutor(1, thread_name_prefix=f"turnaround-{folder.name}")
    try:
        with _ALONE, untouched_logging(), untouched_torch(device):
            # On the thread that will run it: there torch keeps the one core of ncpu, here it gets its own number back.
            auto = thread.submit(
                auto_model,
                model=str(folder),
                device=device,
                ncpu=1,
                ignore_init_mismatch=False,  # else weights of another shape stay random without a word
                disable_update=True,
                disable_pbar=True,
                disable_log=True,
                log_level="ERROR",
            ).result()
    except Exception as error:
        thread.shutdown()
        what = f"{folder.name} cannot be loaded: {type(error).__name__}: {error}"
        raise EngineError(Code.WEIGHTS_CORRUPT, what, remedy) from error
    options.progress(folder.name, 1.0)
    return Model(folder.name, auto, code, thread)


def _device(options: EngineOptions, code: Code) -> str:
    """FunASR itself falls back to the CPU without a word."""
    import torch

    wanted = options.settings.device
    if wanted != "cpu" and torch.cuda.is_available():
        return "cuda"
    if wanted == "cuda":
        raise EngineError(code, "torch sees no CUDA device", "set device to auto or cpu")
    return "cpu"


def library(progress: Progress = no_progress) -> Any:
    """funasr.AutoModel. The first time this takes 10 to 20 s, so `progress` is told how many of its files are in.

    ImportError where a package is missing.
    """
    with _ALONE, untouched_logging():
        return _imported(progress)


def _imported(progress: Progress) -> Any:
    importlib.import_module("kaldi_native_fbank")  # funasr swallows its absence and fails at the first sound
    if "funasr" not in sys.modules:
        spec = importlib.util.find_spec("funasr")
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError("No module named 'funasr'", name="funasr")
        files = sum(1 for root in spec.submodule_search_locations for _ in Path(root).rglob("*.py"))
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_LOOK_S):
                there = sum(name.startswith("funasr.") for name in list(sys.modules))
                progress(_IMPORTING, _LOADING * min(there / max(files, 1), 1.0))

        watching = threading.Thread(target=watch, name="turnaround-import", daemon=True)
        watching.start()
        drawn = random.getstate()
        try:
            importlib.import_module("funasr")
        finally:
            random.setstate(drawn)
            over.set()
            watching.join()
    return importlib.import_module("funasr").AutoModel


@contextmanager
def untouched_logging() -> Iterator[None]:
    """Inside, logging.basicConfig does nothing: it leaves a root logger alone that has a handler."""
    here = logging.NullHandler()
    logging.root.addHandler(here)
    try:
        yield
    finally:
        logging.root.removeHandler(here)


@contextmanager
def untouched_torch(device: str) -> Iterator[None]:
    """Torch's thread count and the random generators' states are afterwards what they were."""
    import torch

    threads, python, numpy = torch.get_num_threads(), random.getstate(), np.random.get_state()
    devices = range(torch.cuda.device_count()) if device == "cuda" else ()
    try:
        with torch.random.fork_rng(devices=list(devices)):
            yield
    finally:
        np.random.set_state(numpy)
        random.setstate(python)
        torch.set_num_threads(threads)


def clean(samples: npt.ArrayLike | bytes) -> Samples:
    """A copy as the models take it: float32 in [-1, 1], shape (n,). NaN and infinity become silence.

    FunASR scales float32 only: of int16 it makes noise, of bytes nothing at all. Both are read as 16-bit PCM here.
    """
    given = np.frombuffer(samples, "<i2") if isinstance(samples, bytes | bytearray) else np.asarray(samples).ravel()
    scale = -float(np.iinfo(given.dtype).min) if np.issubdtype(given.dtype, np.signedinteger) else 1.0
    made = np.nan_to_num(given.astype(np.float32) / np.float32(scale), nan=0.0, posinf=0.0, neginf=0.0)
    clipped: Samples = np.clip(made, -1.0, 1.0)
    return clipped
