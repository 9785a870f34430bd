"""FunASR's models with a few thousand random numbers instead of weights, in directories as the hub lays them out, which
the real classes load: streaming Paraformer, fsmn-vad, ct-punc and SenseVoice.

What they say makes no sense, but it is the sound's own: other audio gives other text. fsmn-vad goes by loudness, and
SenseVoice's four tags are taught, by one least-squares fit of its last layer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.engines.funasr_ground import library
from pipeline.engines.registry import Kind
from pipeline.ports import CAPTURE_RATE, EngineOptions, Samples
from pipeline.settings import Settings

HANZI = tuple("你好我是的了在有不人这中大来上个国说们为今天气怎么样请问谢再见一二三四五六七八九十")
PIECES = ("hel@@", "lo", "wor@@", "ld", "ok")  # English, as Paraformer's vocabulary writes it
LANGUAGES = ("zh", "yue", "en", "ja", "ko")
TAGS = (*LANGUAGES, "nospeech", "HAPPY", "SAD", "NEUTRAL", "EMO_UNKNOWN", "Speech", "BGM", "withitn", "woitn")
_WIDTH = 32
_SANM: dict[str, Any] = {
    "output_size": _WIDTH,
    "attention_heads": 2,
    "linear_units": 64,
    "num_blocks": 2,
    "dropout_rate": 0.0,
    "positional_dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    "pos_enc_class": "SinusoidalPositionEncoder",
    "normalize_before": True,
    "kernel_size": 11,
    "sanm_shfit": 0,
    "selfattention_layer_type": "sanm",
}
_FRONTEND: dict[str, Any] = {
    "fs": CAPTURE_RATE,
    "window": "hamming",
    "n_mels": 80,
    "frame_length": 25,
    "frame_shift": 10,
    "lfr_m": 7,
    "lfr_n": 6,
}


def paraformer(
    folder: Path, seed: int = 0, width: int = _WIDTH, heads: int = 2, units: int = 64, blocks: tuple[int, int] = (2, 2)
) -> Path:
    """Streaming Paraformer in `folder` / "paraformer-zh-streaming". `blocks`: of encoder and decoder."""
    tokens = ["<blank>", "<s>", "</s>", *HANZI, *PIECES, "<unk>"]
    size = {"attention_heads": heads, "linear_units": units, "dropout_rate": 0.0}
    config = {
        "model": "ParaformerStreaming",
        "model_conf": {"ctc_weight": 0.0, "predictor_weight": 1.0, "predictor_bias": 1, "sampling_ratio": 0.75},
        "encoder": "SANMEncoderChunkOpt",
        "encoder_conf": {
            **_SANM,
            **size,
            "output_size": width,
            "num_blocks": blocks[0],
            "input_layer": "pe_online",
            "chunk_size": [12, 15],
            "stride": [8, 10],
            "pad_left": [0, 0],
            "encoder_att_look_back_factor": [4, 4],
            "decoder_att_look_back_factor": [1, 1],
        },
        "decoder": "ParaformerSANMDecoder",
        "decoder_conf": {
            **size,
            "num_blocks": blocks[1],
            "att_layer_num": blocks[1],
            "kernel_size": 11,
            "sanm_shfit": 5,
        },
        "predictor": "CifPredictorV2",
        "predictor_conf": {"idim": width, "threshold": 1.0, "l_order": 1, "r_order": 1, "tail_threshold": 0.45},
        "frontend": "WavFrontendOnline",
        "frontend_conf": _FRONTEND,  # no dither: as in the published model, where the library's own default of 1 acts
        "tokenizer": "CharTokenizer",
        "tokenizer_conf": {"unk_symbol": "<unk>", "split_with_space": True},
    }
    made = _directory(folder / "paraformer-zh-streaming", config, tokens, mean=560)
    network = _network(config, seed, input_size=560, vocab_size=len(tokens))
    return _saved(made, network)


def ct_punc(folder: Path, seed: int = 0) -> Path:
    """ct-punc in `folder` / "ct-punc"."""
    tokens = ["<unk>", *HANZI]
    config = {
        "model": "CTTransformer",
        "model_conf": {
            "ignore_id": 0,
            "embed_unit": 16,
            "att_unit": 16,
            "dropout_rate": 0.0,
            "punc_list": ["<unk>", "_", "，", "。", "？", "、"],
            "punc_weight": [1.0] * 6,
            "sentence_end_id": 3,
        },
        "encoder": "SANMEncoder",
        "encoder_conf": {**_SANM, "input_size": 16, "output_size": 16, "input_layer": "pe", "padding_idx": 0},
        "tokenizer": "CharTokenizer",
        "tokenizer_conf": {"unk_symbol": "<unk>"},
    }
    made = _directory(folder / "ct-punc", config, tokens)
    return _saved(made, _network(config, seed, vocab_size=len(tokens)))


def fsmn_vad(folder: Path, gain: float = 8.0) -> Path:
    """fsmn-vad in `folder` / "fsmn-vad": loud is speech, the surer the larger `gain` is."""
    import torch

    encoder = {
        "input_dim": 400,
        "input_affine_dim": 16,
        "fsmn_layers": 2,
        "linear_dim": 16,
        "proj_dim": 8,
        "lorder": 4,
        "rorder": 0,
        "lstride": 1,
        "rstride": 0,
        "output_affine_dim": 16,
        "output_dim": 4,
    }
    config = {
        "model": "FsmnVADStreaming",
        "model_conf": {"sample_rate": CAPTURE_RATE, "silence_pdf_num": 1, "sil_pdf_ids": [0]},
        "encoder": "FSMN",
        "encoder_conf": encoder,
        "frontend": "WavFrontendOnline",
        "frontend_conf": {**_FRONTEND, "lfr_m": 5, "lfr_n": 1, "dither": 0.0},
    }
    network = _network(config, 0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        net = network.encoder
        # Two lines through the network: how much the mean log-mel is above the middle, and how much below.
        net.in_linear1.linear.weight[0], net.in_linear1.linear.weight[1] = 1.0 / 400, -1.0 / 400
        for layer in (net.in_linear2, net.out_linear1, *(b.linear for b in net.fsmn), *(b.affine for b in net.fsmn)):
            layer.linear.weight[0, 0] = layer.linear.weight[1, 1] = 1.0
        net.out_linear2.linear.weight[0, 0], net.out_linear2.linear.weight[0, 1] = -gain, gain
    return _saved(_directory(folder / "fsmn-vad", config, mean=400, shift=-10.0), network)


def sensevoice(folder: Path, seed: int = 0, emotion: str = "HAPPY") -> Path:
    """SenseVoice in `folder` / "sensevoice-small". It takes the language it is told, Chinese when it is told none, and
    finds the same emotion in everybody."""
    import sentencepiece

    made = folder / "sensevoice-small"
    made.mkdir(parents=True)
    pieces = "chn_jpn_yue_eng_ko_spectok.bpe.model"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["".join(HANZI), "hello world"] * 20),
        model_prefix=str(made / pieces.removesuffix(".model")),
        vocab_size=512,
        hard_vocab_limit=False,
        character_coverage=1.0,
        model_type="char",
        user_defined_symbols=[f"<|{tag}|>" for tag in TAGS],
        minloglevel=2,
    )
    (made / f"{pieces.removesuffix('.model')}.vocab").unlink()
    reader = sentencepiece.SentencePieceProcessor(model_file=str(made / pieces))
    config = {
        "model": "SenseVoiceSmall",
        "model_conf": {"length_normalized_loss": True, "sos": 1, "eos": 2, "ignore_id": -1},
        "encoder": "SenseVoiceEncoderSmall",
        "encoder_conf": {**_SANM, "output_size": 2 * _WIDTH, "tp_blocks": 1, "input_layer": "pe"},
        "frontend": "WavFrontend",
        "frontend_conf": _FRONTEND,
        "tokenizer": "SentencepiecesTokenizer",
        "tokenizer_conf": {"unk_symbol": "<unk>", "split_with_space": True},
        "ctc_conf": {"dropout_rate": 0.0, "ctc_type": "builtin", "reduce": True, "ignore_nan_grad": True},
    }
    _directory(made, config, mean=560, more={"tokenizer_conf": {"bpemodel": pieces}})
    network = _network(config, seed, input_size=560, vocab_size=reader.get_piece_size())
    _teach(network, made / "am.mvn", {tag: reader.piece_to_id(f"<|{tag}|>") for tag in TAGS}, emotion)
    return _saved(made, network)


def _teach(network: Any, mean: Path, ids: dict[str, int], emotion: str) -> None:
    """Set the last layer's rows of the tags so that the first four frames say what they should, and no other does."""
    import torch
    from funasr.register import tables

    frontend = tables.frontend_classes["WavFrontend"](cmvn_file=str(mean), dither=0.0, **_FRONTEND)
    inputs, wanted = [], []
    with torch.no_grad():
        for seed, seconds in enumerate((0.2, 0.5, 1.0, 1.6, 2.4, 3.5, 5.0, 8.0), start=100):
            heard = torch.from_numpy(syllables(seconds, seed))[None]
            sound, _ = frontend(heard, torch.tensor([heard.shape[1]]))
            # (the number of the query, what is to be answered)
            for query, language in ((0, "zh"), (3, "zh"), (7, "yue"), (4, "en"), (11, "ja"), (12, "ko")):
                for norm, tag in ((14, "withitn"), (15, "woitn")):
                    asking = network.embed(torch.tensor([[query, 1, 2, norm]]))
                    out, _ = network.encoder(torch.cat((asking, sound), 1), torch.tensor([sound.shape[1] + 4]))
                    target = torch.full((out.shape[1], len(ids)), -20.0)
                    for frame, said in enumerate((language, emotion, "Speech", tag)):
                        target[frame, list(ids).index(said)] = 20.0
                    inputs.append(out[0])
                    wanted.append(target)
        x, y = torch.cat(inputs), torch.cat(wanted)
        x1 = torch.cat((x, torch.ones(len(x), 1)), 1)
        importance = torch.where(y.max(1, keepdim=True).values > 0, 30.0, 1.0)  # four frames against many
        solved = torch.linalg.lstsq(x1 * importance, y * importance, driver="gelsd").solution
        last = network.ctc.ctc_lo
        last.weight[list(ids.values())], last.bias[list(ids.values())] = solved[:-1].T, solved[-1]


def _network(config: dict[str, Any], seed: int, **sizes: int) -> Any:
    """The real class with random weights; the process's random generator is left alone."""
    import torch

    library()  # fills the tables; imported by our engines' own way, it leaves no traces
    from funasr.register import tables

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts = {k: v for k, v in config.items() if k not in ("model", "model_conf")}
        return tables.model_classes[config["model"]](**sizes, **parts, **config["model_conf"]).eval()


def _directory(
    made: Path,
    config: dict[str, Any],
    tokens: list[str] | None = None,
    mean: int = 0,
    shift: float = -12.0,
    more: dict[str, Any] | None = None,
) -> Path:
    """The files around the weights."""
    made.mkdir(parents=True, exist_ok=True)
    # JSON is YAML as well.
    (made / "config.yaml").write_text(json.dumps(config, ensure_ascii=False), "utf-8")
    files: dict[str, Any] = {"init_param": "model.pt", "config": "config.yaml", **(more or {})}
    if tokens:
        (made / "tokens.json").write_text(json.dumps(tokens, ensure_ascii=False), "utf-8")
        files["tokenizer_conf"] = {"token_list": "tokens.json"}
    if mean:
        (made / "am.mvn").write_text(_mvn(mean, shift, 0.2), "utf-8")
        files["frontend_conf"] = {"cmvn_file": "am.mvn"}
    (made / "configuration.json").write_text(json.dumps({"framework": "pytorch", "file_path_metas": files}), "utf-8")
    return made


def _mvn(size: int, shift: float, scale: float) -> str:
    """Kaldi's text form of a shift and a scale, the same for all of `size` features."""
    row = "<LearnRateCoef> 0 [ {} ]"
    shifts, scales = (" ".join([str(value)] * size) for value in (shift, scale))
    return (
        f"<Nnet>\n<Splice> {size} {size}\n[ 0 ]\n<AddShift> {size} {size}\n{row.format(shifts)}\n"
        f"<Rescale> {size} {size}\n{row.format(scales)}\n</Nnet>\n"
    )


def _saved(made: Path, network: Any) -> Path:
    import torch

    torch.save(network.state_dict(), made / "model.pt")
    return made


def syllables(seconds: float, seed: int = 0) -> Samples:
    """A voice-like sound: tones of changing pitch and loudness, shape (n,), 16 kHz."""
    rng = np.random.default_rng(seed)
    parts = list(_syllables(seconds, rng))
    return np.concatenate(parts)[: round(seconds * CAPTURE_RATE)].astype(np.float32)


def _syllables(seconds: float, rng: np.random.Generator) -> Iterator[Samples]:
    left = seconds
    while left > 0:
        length = float(rng.uniform(0.12, 0.3))
        at = np.arange(round(length * CAPTURE_RATE)) / CAPTURE_RATE
        tone = np.sin(2 * np.pi * rng.uniform(90, 320) * at) + 0.5 * np.sin(2 * np.pi * rng.uniform(500, 3000) * at)
        shape = np.sin(np.pi * at / length) * rng.uniform(0.1, 0.5)
        yield (tone * shape + rng.normal(0, 0.003, at.size)).astype(np.float32)
        left -= length


def _options(*builders: Callable[[Path], Path]) -> Callable[[Path], EngineOptions]:
    def make(folder: Path) -> EngineOptions:
        for build in builders:
            build(folder)
        return EngineOptions(threads=1, models=folder, settings=Settings(device="cpu"))

    return make


# For the contract test: builds what a row needs under a folder, and says where it is.
OPTIONS: dict[tuple[Kind, str], Callable[[Path], EngineOptions]] = {
    (Kind.VAD, "fsmn-vad"): _options(fsmn_vad),
    (Kind.ASR, "paraformer"): _options(paraformer, ct_punc),
    (Kind.ASR, "sensevoice"): _options(paraformer, sensevoice),
}
