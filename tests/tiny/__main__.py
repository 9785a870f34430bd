"""`python -m tests.tiny DIR`: the article's stack with random weights in DIR, and a profile that names it.

    TURNAROUND_PROFILE=DIR/profile.toml TURNAROUND_MODELS=DIR/models COSYVOICE_HOME=tests/tiny/cosyvoice_standin \\
        PYTHONPATH=DIR/packages:. python -m streamlit run app.py

What it hears and answers makes no sense; every part but the weights and the voice is the real one. The models are made
in a process of its own: what uses them should not have to load torch.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pipeline.engines.registry import Kind, row
from pipeline.stock import PIN, mismatches
from tests.tiny import chat, funasr, voices

# Timeouts as for a machine that does something else as well; no openers, so that all of the reply is the model's.
PROFILE = """
vad = "silero"
asr = "paraformer"
llm = "transformers"
llm_model = "{chat}"
tts = "cosyvoice3"
scenario = "shop-zh"
device = "cpu"
threads = 1
openers = false
max_tokens = 24
asr_timeout_s = 30
llm_timeout_s = 60
tts_timeout_s = 30
"""


def make(folder: Path) -> None:
    models = folder / "models"
    funasr.paraformer(models)
    funasr.ct_punc(models)
    voices.cosyvoice3(folder)
    (folder / "profile.toml").write_text(PROFILE.format(chat=chat.build_chat(models)), "utf-8")
    _name_packages(folder / "packages")


def _name_packages(folder: Path) -> None:
    """What only the upstream checkout imports is named as if it were installed: the stand-in needs none of it, and the
    page would rightly refuse to begin."""
    for pin in row(Kind.TTS, "cosyvoice3").packages:
        found = PIN.match(pin)
        if found and mismatches({found[1]: found[2]}):
            made = folder / f"{re.sub('[-.]+', '_', found[1])}-{found[2]}.dist-info"
            made.mkdir(parents=True)
            (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {found[1]}\nVersion: {found[2]}\n", "utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())
