"""Stands in for CosyVoice 3's front door: AutoModel and the three ways to speak, with what is wrong with them."""

import json
import logging
import re
import time
from pathlib import Path

from cosyvoice.cli.model import RATE, CosyVoice3Model, Flaws

logging.getLogger().setLevel(logging.DEBUG)  # as upstream does when it is imported


def tqdm(texts):
    return iter(texts)


class FrontEnd:
    def __init__(self, flaws):
        self.flaws = flaws
        self.spk2info = {}

    def text_normalize(self, text, split=True, text_frontend=True):
        if "<|" in text and "|>" in text:
            text_frontend = False
        if not text_frontend or text == "":
            return [text] if split else text
        texts = [] if re.fullmatch(r"[\W_]*", text) else [text]
        return texts if split else text

    def frontend_zero_shot(self, text, prompt_text, prompt_wav, zero_shot_spk_id):
        if text == "" and zero_shot_spk_id != "":
            raise IndexError("index out of range in self")
        if zero_shot_spk_id != "":
            return {**self.spk2info[zero_shot_spk_id], "text": text}
        import soundfile

        time.sleep(self.flaws.front_end_ms / 1e3)
        seconds = soundfile.info(str(prompt_wav)).duration
        tokens = int(-(-round(seconds * 25, 6) // 1))
        return {
            "prompt_text": prompt_text,
            "llm_prompt_speech_token": tokens,
            "flow_prompt_speech_token": tokens,
            "llm_embedding": Path(prompt_wav).name.partition("-")[0],
            "text": text,
        }

    def frontend_instruct2(self, text, instruct_text, prompt_wav, zero_shot_spk_id):
        # A registered speaker brings its own prompt: the instruction is dropped, and nobody is told.
        given = self.frontend_zero_shot(text, instruct_text, prompt_wav, zero_shot_spk_id)
        del given["llm_prompt_speech_token"]
        return given


class CosyVoice3:
    def __init__(self, model_dir, load_trt=False, load_vllm=False, fp16=False):
        flaws = Flaws(**json.loads(Path(model_dir, "cosyvoice3.yaml").read_text("utf-8")))
        self.frontend = FrontEnd(flaws)
        self.sample_rate = RATE
        self.model = CosyVoice3Model(flaws)

    def add_zero_shot_spk(self, prompt_text, prompt_wav, zero_shot_spk_id):
        assert zero_shot_spk_id != "", "do not use empty zero_shot_spk_id"
        given = self.frontend.frontend_zero_shot("", prompt_text, prompt_wav, "")
        del given["text"]
        self.frontend.spk2info[zero_shot_spk_id] = given
        return True

    def inference_zero_shot(self, tts_text, prompt_text, prompt_wav, zero_shot_spk_id="", stream=False, speed=1.0,
                            text_frontend=True):  # fmt: skip
        prompt_text = self.frontend.text_normalize(prompt_text, split=False, text_frontend=text_frontend)
        for text in tqdm(self.frontend.text_normalize(tts_text, split=True, text_frontend=text_frontend)):
            given = self.frontend.frontend_zero_shot(text, prompt_text, prompt_wav, zero_shot_spk_id)
            yield from self.model.tts(**given, stream=stream, speed=speed)

    def inference_instruct2(self, tts_text, instruct_text, prompt_wav, zero_shot_spk_id="", stream=False, speed=1.0,
                            text_frontend=True):  # fmt: skip
        for text in tqdm(self.frontend.text_normalize(tts_text, split=True, text_frontend=text_frontend)):
            given = self.frontend.frontend_instruct2(text, instruct_text, prompt_wav, zero_shot_spk_id)
            yield from self.model.tts(**given, stream=stream, speed=speed)


def AutoModel(**more):
    if not Path(more["model_dir"], "cosyvoice3.yaml").exists():
        raise TypeError("No valid model type found!")
    return CosyVoice3(**more)
