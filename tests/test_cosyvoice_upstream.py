"""The engine on the real code of CosyVoice: a checkout that COSYVOICE_HOME names, with a very small random model.

    COSYVOICE_HOME=~/.cache/turnaround/cosyvoice python -m pytest -m upstream

It runs in a process of its own, because the stand-in's modules have the same names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HOME = os.environ.get("COSYVOICE_HOME", "")
ROOT = Path(__file__).parent.parent

VISIT = """
import json, sys, threading
from itertools import islice
from pathlib import Path
import numpy as np
from pipeline.engines.registry import Kind, create
from pipeline.errors import EngineError
from pipeline.ports import EngineOptions, Style, never
from pipeline.settings import Settings
from tests.tiny.cosyvoice_upstream import make

folder, home = Path(sys.argv[1]), sys.argv[2]
make(Path(home), folder / "models" / "cosyvoice3")
settings = Settings(tts="cosyvoice3", manners="cantonese", tts_timeout_s=50, device="auto")
tts = create(Kind.TTS, "cosyvoice3", EngineOptions(
    models=folder / "models", cache=folder / "cache", settings=settings, secret=lambda _: home))
tts.warm_up()
model, chunks = tts._mended._model, []
original = model.token2wav
model.token2wav = lambda *a, **k: (chunks.append(k["token_offset"]), original(*a, **k))[1]


def spoken(manner=""):
    chunks.clear()
    try:
        pieces = tts.speak("您好，请问有什么可以帮您的吗？我们九点开门。", Style(manner=manner), never)
        return sum(p.size for p in pieces)
    except EngineError as error:
        return str(error)


answers = {"plain": [], "second chunk at": []}
for _ in range(6):  # random weights stop where they like: not every reply has two chunks
    answers["plain"].append(spoken())
    answers["second chunk at"] += chunks[1:2]
answers["cantonese"] = spoken("cantonese")
pieces = tts.speak("您好，请问有什么可以帮您的吗？" * 4, Style(), never)
list(islice(pieces, 1))
pieces.close()
threading.Event().wait(3.0)
answers["threads"] = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
answers["kept"] = len(model.tts_speech_token_dict) + len(model.llm_end_dict) + len(model.hift_cache_dict)
model.llm.sampling = None
answers["broken"] = spoken()
print("ANSWERS " + json.dumps(answers))
"""


@pytest.mark.upstream
@pytest.mark.skipif(not HOME, reason="COSYVOICE_HOME names no checkout of CosyVoice")
@pytest.mark.skipif(find_spec("onnx") is None, reason="the small model is made with onnx: pip install onnx==1.23.2")
def test_the_engine_on_the_real_code(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", VISIT, str(tmp_path), HOME], cwd=ROOT, text=True, capture_output=True, timeout=300
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWERS ")]
    assert lines, done.stderr[-3000:]
    answers = json.loads(lines[0].removeprefix("ANSWERS "))
    assert max(answers["plain"]) > 12_000, "half a second at least, when it does not stop at once"
    assert answers["cantonese"] > 0
    assert len(answers["second chunk at"]) > 1
    assert set(answers["second chunk at"]) == {25}, "the first chunk does not grow"
    assert not [name for name in answers["threads"] if "cosyvoice3" in name or "llm_job" in name]
    assert answers["kept"] == 0
    assert "tts.failed" in str(answers["broken"]), "an error of the model's thread is heard"
