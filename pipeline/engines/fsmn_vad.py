"""FunASR's fsmn-vad as a VAD: the network's own posteriors, frame by frame.

Its AutoModel gives segments instead, and three traps with them: by default it waits up to 2 s of silence, the argument
that says otherwise is kept for every other caller too, and a posterior of exactly 0 or 1 ends in "math domain error"
since it takes its logarithm. None of that is used. How much silence ends an utterance is the session's endpointer's
business, so it is each visitor's own, and P(speech) is 1 - P(silence) without a logarithm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.engines.funasr_ground import Model, clean, load
from pipeline.engines.hub import locate_model
from pipeline.engines.registry import Kind, row
from pipeline.errors import Code
from pipeline.ports import EngineOptions, Samples

FRAME_SAMPLES = 480  # 30 ms: three of the network's frames, so that one call is worth its cost


class FsmnVad:
    """The shared weights; each visitor takes a `stream`."""

    name = "fsmn-vad"
    frame_samples = FRAME_SAMPLES

    def __init__(self, model: Model) -> None:
        self._model = model

    def warm_up(self) -> None:
        stream = self.stream()
        for _ in range(10):
            stream.probability(np.zeros(FRAME_SAMPLES, np.float32))

    def stream(self) -> FsmnStream:
        return FsmnStream(self._model)


class FsmnStream:
    """One visitor's state: the frontend's overlap and the network's memory."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._silence = list(model.network.vad_opts.sil_pdf_ids)
        self._overlap: dict[str, Any] = {}
        self._memory: dict[str, Any] = {}
        self._last = 0.0

    def probability(self, frame: Samples) -> float:
        """P(speech) of the newest frames that are complete (about 45 ms back, which is what the network looks ahead).

        EngineError VAD_FAILED when the network cannot be run.
        """
        speech = self._model.run(lambda: self._heard(clean(frame)))
        if speech is not None:
            # Saturated or broken arithmetic must not end the listening; not a number is taken for silence.
            self._last = min(max(speech, 0.0), 1.0) if np.isfinite(speech) else 0.0
        return self._last

    def _heard(self, samples: Samples) -> float | None:
        """P(speech), the mean of the frames that `samples` complete; None while they complete none."""
        import torch

        audio = torch.from_numpy(samples)[None]
        lengths = torch.tensor([audio.shape[1]])
        features, _ = self._model.settings["frontend"](audio, lengths, cache=self._overlap, is_final=False)
        if not features.numel():
            return None
        posteriors = self._model.network.encoder(features.to(self._model.settings["device"]), cache=self._memory)
        return 1.0 - float(posteriors[0, :, self._silence].sum(dim=-1).mean())


def build(options: EngineOptions) -> FsmnVad:
    folder = locate_model(row(Kind.VAD, FsmnVad.name).models[0], options)
    return FsmnVad(load(folder, options, Code.VAD_FAILED))
