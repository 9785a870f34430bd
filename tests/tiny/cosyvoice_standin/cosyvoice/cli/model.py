"""Stands in for CosyVoice 3's model: the same names, signatures, threads and dictionaries, and what is wrong with them.

Written from what was observed of the open code, none of it copied. Its "speech" is a tone a character, 24 kHz; the
pitch tells which prompt it was given. `Flaws` says what else shall go wrong.
"""

import threading
import time
import uuid
import zlib
from dataclasses import dataclass

import numpy as np

RATE = 24_000
TOKEN = RATE // 25  # samples a token
TOKENS_A_CHARACTER = 3
SILENT = 0.0
BROKEN_HZ = 5000.0  # what a step that looked at too little says
PROMPT_END = "<|endofprompt|>"
RELEASE = threading.Event()  # set: threads that hang come back


@dataclass
class Flaws:
    token_ms: float = 0.0  # a slow language model
    front_end_ms: float = 0.0
    hang_after: int = -1  # tokens after which its thread waits for ever
    die_after: int = -1
    short: str = "speak"  # what it does with fewer than three characters: speak, hang, die, nothing
    silent: bool = False


class Cache:
    def __init__(self):
        self.length = 0


class Decoder:
    """Misreads a mask that is as long as the new tokens alone, as transformers does from 4.53 on."""

    def __call__(self, inputs_embeds, attention_mask=None, past_key_values=None, **more):
        cache = past_key_values or Cache()
        cache.length += inputs_embeds.shape[1]
        seen = cache.length if attention_mask is None else attention_mask.shape[-1]
        out = type("Out", (), {})()
        out.hidden_states = [inputs_embeds if seen == cache.length else np.full_like(inputs_embeds, BROKEN_HZ)]
        out.past_key_values = cache
        return out


class Encoder:
    def __init__(self):
        self.model = Decoder()

    def forward_one_step(self, xs, masks, cache=None):
        out = self.model(
            inputs_embeds=xs, attention_mask=masks[:, -1, :], output_hidden_states=True, past_key_values=cache
        )
        return out.hidden_states[-1], out.past_key_values


class LanguageModel:
    def __init__(self, flaws):
        self.llm = Encoder()
        self.flaws = flaws

    def inference(self, text, text_len, prompt_text, prompt_text_len, prompt_speech_token, embedding, uuid=""):
        assert PROMPT_END in prompt_text + text, "<|endofprompt|> not detected in CosyVoice3 text or prompt_text"
        if len(text) < 3 and self.flaws.short == "nothing":
            return
        cache = None
        tones = [SILENT, SILENT, *voiced(text, prompt_text + embedding), *[SILENT] * 6]
        for made, hertz in enumerate(tones):
            if made == self.flaws.hang_after or (len(text) < 3 and self.flaws.short == "hang"):
                RELEASE.wait()
            if made == self.flaws.die_after or (len(text) < 3 and self.flaws.short == "die"):
                raise RuntimeError("sampling reaches max_trials")
            if self.flaws.token_ms:
                time.sleep(self.flaws.token_ms / 1e3)
            embeds = np.full((1, 1 if cache else 7, 1), hertz)
            hidden, cache = self.llm.forward_one_step(
                embeds, masks=np.ones((1, embeds.shape[1], embeds.shape[1])), cache=cache
            )
            yield float(hidden[0, -1, 0])


def voiced(text, prompt):
    """The tones of `text` after `prompt`, one a token."""
    base = 200.0 + 15.0 * (zlib.crc32(prompt.encode()) % 40)
    return [base + 4.0 * (ord(char) % 16) for char in text for _ in range(TOKENS_A_CHARACTER)]


class CosyVoice3Model:
    def __init__(self, flaws):
        self.flaws = flaws
        self.llm = LanguageModel(flaws)
        self.token_hop_len = 25
        self.token_max_hop_len = 100
        self.stream_scale_factor = 2
        self.lookahead = 3
        self.lock = threading.Lock()
        self.tts_speech_token_dict = {}
        self.llm_end_dict = {}
        self.hift_cache_dict = {}

    def llm_job(self, text, prompt_text, llm_prompt_speech_token, llm_embedding, uuid):
        for token in self.llm.inference(
            text=text,
            text_len=len(text),
            prompt_text=prompt_text,
            prompt_text_len=len(prompt_text),
            prompt_speech_token=llm_prompt_speech_token,
            embedding=llm_embedding,
            uuid=uuid,
        ):
            self.tts_speech_token_dict[uuid].append(token)
        self.llm_end_dict[uuid] = True

    def token2wav(self, token, token_offset, uuid, finalize=False, speed=1.0):
        tokens = token[token_offset:] if finalize else token[token_offset : len(token) - self.lookahead]
        if self.flaws.silent:
            tokens = [SILENT] * len(tokens)
        at = np.arange(TOKEN) / RATE
        parts = [0.3 * np.sin(2 * np.pi * hertz * at) for hertz in tokens]
        speech = np.concatenate(parts) if parts else np.zeros(0)
        if speed != 1.0:
            assert finalize, "speed change only support non-stream inference mode"
            speech = speech[:: max(1, round(speed))]
        return speech.astype(np.float32)[None]

    def tts(self, text, prompt_text="", llm_prompt_speech_token=0, flow_prompt_speech_token=0, llm_embedding="",
            stream=False, speed=1.0, **more):  # fmt: skip
        mine = str(uuid.uuid1())
        with self.lock:
            self.tts_speech_token_dict[mine], self.llm_end_dict[mine] = [], False
            self.hift_cache_dict[mine] = None
        thread = threading.Thread(
            target=self.llm_job,
            args=(text, prompt_text, llm_prompt_speech_token, llm_embedding, mine),
            name="stand-in-lm",
            daemon=True,
        )
        thread.start()
        if stream:
            offset = 0
            pad = -flow_prompt_speech_token % self.token_hop_len
            while True:
                time.sleep(0.1)
                hop = self.token_hop_len + (pad if offset == 0 else 0)
                if len(self.tts_speech_token_dict[mine]) - offset >= hop + self.lookahead:
                    ready = self.tts_speech_token_dict[mine][: offset + hop + self.lookahead]
                    speech = self.token2wav(token=ready, token_offset=offset, uuid=mine)
                    offset += hop
                    self.token_hop_len = min(self.token_max_hop_len, self.token_hop_len * self.stream_scale_factor)
                    yield {"tts_speech": speech}
                if (
                    self.llm_end_dict[mine] is True
                    and len(self.tts_speech_token_dict[mine]) - offset < hop + self.lookahead
                ):
                    break
            thread.join()
            rest = self.token2wav(token=self.tts_speech_token_dict[mine], token_offset=offset, uuid=mine, finalize=True)
            yield {"tts_speech": rest}
        else:
            thread.join()
            whole = self.token2wav(
                token=self.tts_speech_token_dict[mine], token_offset=0, uuid=mine, finalize=True, speed=speed
            )
            yield {"tts_speech": whole}
        with self.lock:
            self.tts_speech_token_dict.pop(mine)
            self.llm_end_dict.pop(mine)
            self.hift_cache_dict.pop(mine)
