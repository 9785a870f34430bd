"""CosyVoice's own classes, imported from a checkout that the operator names: they are in no package registry.

Importing them has side effects (log settings, random seeds) and wants two modules that cannot be had beside the pinned
packages: torchaudio, of which there is no release for this torch, and pkg_resources, which setuptools dropped. The
first are undone; of the others the few functions in use stand in, for the time of the import only. No code of theirs
is in this project.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import logging
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from pipeline.errors import Code, EngineError

HOME = "COSYVOICE_HOME"
_REMEDY = f"run `make cosyvoice`, and set {HOME} to the folder it names"


def load(home: str, weights: Path, device: str) -> Any:
    """The upstream model object, its weights loaded.

    EngineError KEY_MISSING where no checkout is named, PACKAGE_MISSING where the folder is not a whole one,
    TTS_FAILED when the model cannot be made. ImportError for a package that upstream needs.
    """
    with importable(home):
        upstream = importlib.import_module("cosyvoice.cli.cosyvoice")
        _refuse(device)
        # Its progress bar would print every phrase's advance to the terminal.
        upstream.tqdm = _plain  # type: ignore[attr-defined]
        if not weights.is_dir():
            raise EngineError(Code.WEIGHTS_MISSING, f"there is no folder {weights}", "make cosyvoice")
        try:
            return upstream.AutoModel(model_dir=str(weights), load_trt=False, load_vllm=False, fp16=False)
        except Exception as error:
            what = f"CosyVoice cannot be loaded from {weights}: {error}"
            raise EngineError(Code.TTS_FAILED, what, "see `python -m pipeline download --list`") from error


@contextmanager
def importable(home: str) -> Iterator[None]:
    """Within it the checkout's modules can be imported, and what that changes for the process is put back after.

    EngineError KEY_MISSING or PACKAGE_MISSING where `home` is no whole checkout.
    """
    folder = _checked(home)
    for path in (folder, folder / "third_party" / "Matcha-TTS"):
        # At the end: the checkout has folders called `tools` and `examples`, which must not hide anybody's.
        if str(path) not in sys.path:
            sys.path.append(str(path))
    with _undone(), _standing_in():
        yield


def _checked(home: str) -> Path:
    if not home:
        raise EngineError(Code.KEY_MISSING, f"{HOME} is not set: CosyVoice runs from a checkout of its source", _REMEDY)
    folder = Path(home).expanduser().resolve()
    if not (folder / "cosyvoice" / "cli" / "cosyvoice.py").is_file():
        raise EngineError(Code.PACKAGE_MISSING, f"{folder} is not a checkout of CosyVoice", _REMEDY)
    if not (folder / "third_party" / "Matcha-TTS" / "matcha").is_dir():
        what = f"the checkout {folder} lacks its submodule third_party/Matcha-TTS"
        remedy = f"git -C {folder} submodule update --init --recursive"
        raise EngineError(Code.PACKAGE_MISSING, what, remedy)
    return folder


def _refuse(device: str) -> None:
    """Upstream takes the GPU whenever there is one; a setting that says otherwise is not silently ignored."""
    torch = sys.modules.get("torch")
    if torch is None or device == "auto":
        return
    gpu = bool(torch.cuda.is_available())
    if device == "cuda" and not gpu:
        raise EngineError(Code.TTS_FAILED, "CosyVoice was to run on a GPU and PyTorch sees none", "set device=auto")
    if device == "cpu" and gpu:
        what = "CosyVoice takes the GPU whenever PyTorch sees one, and device=cpu was asked for"
        raise EngineError(Code.TTS_FAILED, what, "set device=auto, or hide the GPU: CUDA_VISIBLE_DEVICES=''")


def _plain(texts: Any, *_: object, **__: object) -> Any:
    return texts


@contextmanager
def _undone() -> Iterator[None]:
    """What importing and loading upstream changes for the whole process, put back."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    seeds, numpy_seeds = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
        random.setstate(seeds)
        np.random.set_state(numpy_seeds)


@contextmanager
def _standing_in() -> Iterator[None]:
    """Lets the missing modules be imported, and not a moment longer than upstream needs: others look for them, too."""
    added = {}
    for modules in (_torchaudio(), _pkg_resources()):
        if importlib.util.find_spec(next(iter(modules))) is None:
            added.update(modules)
    sys.modules.update(added)
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]


def _module(name: str) -> Any:
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    return module


def _torchaudio() -> dict[str, ModuleType]:
    """load, Resample and fbank, made of soundfile, soxr and kaldi-native-fbank; Spectrogram is for training only."""
    top, transforms = _module("torchaudio"), _module("torchaudio.transforms")
    compliance, kaldi = _module("torchaudio.compliance"), _module("torchaudio.compliance.kaldi")
    top.transforms, top.compliance, compliance.kaldi = transforms, compliance, kaldi
    top.load, transforms.Resample, transforms.Spectrogram, kaldi.fbank = _load, _resample, _Untrained, _fbank
    return {module.__name__: module for module in (top, transforms, compliance, kaldi)}


def _pkg_resources() -> dict[str, ModuleType]:
    """pyworld asks it for its own version."""
    module = _module("pkg_resources")
    module.get_distribution = importlib.metadata.distribution
    return {module.__name__: module}


class _Untrained:
    """Stands where a part that is used in training alone is made."""

    def __init__(self, *_: object, **__: object) -> None:
        pass


def _load(path: str, **_: object) -> tuple[Any, int]:
    """A recording as a tensor of shape (channels, n) in [-1, 1], and its rate in Hz."""
    import soundfile
    import torch

    frames, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return torch.from_numpy(np.ascontiguousarray(frames.T)), int(rate)


def _resample(orig_freq: int, new_freq: int) -> Any:
    import soxr
    import torch

    def call(speech: Any) -> Any:
        return torch.from_numpy(np.ascontiguousarray(soxr.resample(speech.numpy().T, orig_freq, new_freq).T))

    return call


def _fbank(speech: Any, num_mel_bins: int, dither: float, sample_frequency: int) -> Any:
    """Log mel energies, tensor of shape (frames, num_mel_bins), of speech of shape (1, n)."""
    import kaldi_native_fbank
    import torch

    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.samp_freq = float(sample_frequency)
    options.frame_opts.dither = dither
    options.mel_opts.num_bins = num_mel_bins
    bank = kaldi_native_fbank.OnlineFbank(options)
    bank.accept_waveform(float(sample_frequency), speech[0].tolist())
    bank.input_finished()
    return torch.from_numpy(np.stack([bank.get_frame(i) for i in range(bank.num_frames_ready)]))
