"""What is wrong with CosyVoice's open code, each in a stand-in that does it, and the engine that keeps it from biting.

The stand-in (tests/tiny/cosyvoice_standin) has upstream's names, signatures, threads and dictionaries. Each flaw is
first shown without the engine, so that a test which could not fail would be seen.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from pipeline.engines import cosyvoice_ground
from pipeline.engines.cosyvoice3 import CosyVoice3, prompt_wav
from pipeline.engines.cosyvoice_ground import mend_cache, mend_step
from pipeline.engines.registry import Kind, create
from pipeline.errors import Code, EngineError
from pipeline.manners import MANNERS
from pipeline.ports import Samples, Style, never
from pipeline.voices import voices
from tests.memory import resident
from tests.tiny.voices import STAND_IN, cosyvoice3

ASK = "您好，请问有什么可以帮您？"
RATE = 24_000
BROKEN_HZ = 5000.0


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Every thread of ours or of the stand-in's has ended when a test has."""
    yield
    if "cosyvoice.cli.model" in sys.modules:
        release = sys.modules["cosyvoice.cli.model"].RELEASE
        release.set()
        ended = wait(lambda: not threads())
        release.clear()
        assert ended, threads()


def engine(folder: Path, flaws: dict[str, Any] | None = None, **settings: Any) -> CosyVoice3:
    made: Any = create(Kind.TTS, "cosyvoice3", cosyvoice3(folder, flaws, **settings))
    assert isinstance(made, CosyVoice3)
    return made


def bare(folder: Path, **flaws: Any) -> Any:
    """The stand-in without the engine: what upstream does when nobody mends it."""
    engine(folder, flaws)  # for its import
    return sys.modules["cosyvoice.cli.cosyvoice"].AutoModel(model_dir=str(folder / "models" / "cosyvoice3"))


def model_of(tts: CosyVoice3) -> Any:
    return tts._mended._model


def spoken(tts: CosyVoice3, text: str = ASK, **style: Any) -> Samples:
    pieces = list(tts.speak(text, Style(**style), never))
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)


def pitch(audio: Samples) -> float:
    """Hz of the loudest tone in the middle."""
    middle = audio[audio.size // 4 : audio.size * 3 // 4]
    return float(np.abs(np.fft.rfft(middle * np.hanning(middle.size))).argmax()) * RATE / middle.size


def kept(model: Any) -> int:
    """Entries of the model's dictionaries about requests."""
    return len(model.tts_speech_token_dict) + len(model.llm_end_dict) + len(model.hift_cache_dict)


def threads() -> list[str]:
    names = [t.name for t in threading.enumerate()]
    return [name for name in names if name.startswith(("cosyvoice3", "stand-in"))]


def wait(until: Any, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if until():
            return True
        time.sleep(0.01)
    return bool(until())


def hangs(pieces: Iterator[Any], seconds: float = 0.5) -> bool:
    """Whether reading `pieces` to the end takes longer than that."""
    reader = threading.Thread(target=lambda: list(pieces), daemon=True)
    reader.start()
    reader.join(seconds)
    return reader.is_alive()


# -- each flaw, bare and mended


def test_the_first_chunk_is_as_short_in_every_request(tmp_path: Path) -> None:
    upstream, wav = bare(tmp_path), str(soft_wav(tmp_path))
    long = ASK * 4

    def first() -> int:
        return next(upstream.inference_instruct2(long, "<|endofprompt|>", wav, stream=True))["tts_speech"].shape[1]

    sizes = [first()]
    list(upstream.inference_instruct2(long, "<|endofprompt|>", wav, stream=True))
    sizes.append(first())
    assert sizes[1] > 2 * sizes[0], "upstream's hop grows and stays so"

    tts = engine(tmp_path, first_hop_tokens=10)
    chunks: list[list[int]] = []
    for _ in range(2):
        made: list[int] = []
        original = model_of(tts).token2wav
        model_of(tts).token2wav = lambda *a, o=original, m=made, **k: note(m, o(*a, **k))
        spoken(tts, long)
        model_of(tts).token2wav = original
        chunks.append(made)
    assert chunks[0] == chunks[1]
    assert chunks[0][0] == 10 * RATE // 25, "settings.first_hop_tokens is the first chunk"
    assert chunks[0][1] > chunks[0][0], "later ones still grow"


def note(sizes: list[int], speech: Any) -> Any:
    sizes.append(speech.shape[1])
    return speech


def test_the_cached_step_looks_at_everything(tmp_path: Path) -> None:
    upstream, wav = bare(tmp_path), str(soft_wav(tmp_path))
    parts = [p["tts_speech"][0] for p in upstream.inference_zero_shot(ASK, "<|endofprompt|>", wav, stream=True)]
    assert pitch(np.concatenate(parts)) == pytest.approx(BROKEN_HZ, abs=20), "upstream's mask is misread"
    assert pitch(spoken(engine(tmp_path))) < 1000


@pytest.mark.parametrize("flaw", [{"die_after": 0}, {"die_after": 40}], ids=["at once", "half way"])
def test_an_error_in_the_models_thread_reaches_the_listener(
    tmp_path: Path, flaw: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)  # the bare stand-in's thread dies loudly
    upstream, wav = bare(tmp_path, **flaw), str(soft_wav(tmp_path))
    stuck = upstream.inference_zero_shot(ASK, "<|endofprompt|>", wav, stream=True)
    assert hangs(stuck), "upstream waits for ever"
    for name in list(upstream.model.llm_end_dict):
        upstream.model.llm_end_dict[name] = True

    tts = engine(tmp_path, flaw)
    with pytest.raises(EngineError, match="max_trials") as caught:
        spoken(tts)
    assert caught.value.code is Code.TTS_FAILED
    assert wait(lambda: not threads())
    assert kept(model_of(tts)) == 0
    model_of(tts).flaws.die_after = -1
    assert spoken(tts).size, "and the next phrase is spoken"


def test_the_prompt_always_ends_with_its_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    upstream, wav = bare(tmp_path), str(soft_wav(tmp_path))
    assert hangs(upstream.inference_zero_shot(ASK, "no mark here", wav, stream=True)), "without it upstream hangs"
    for name in list(upstream.model.llm_end_dict):
        upstream.model.llm_end_dict[name] = True

    tts = engine(tmp_path)
    for manner in ("", *MANNERS):
        spoken(tts, manner=manner)
    prompts = [given["prompt_text"] for given in tts._mended._upstream.frontend.spk2info.values()]
    assert len(prompts) == 1 + len(MANNERS)
    assert all(p.count("<|endofprompt|>") == 1 for p in prompts)


def test_the_instruction_is_heard_although_a_registered_speaker_drops_it(tmp_path: Path) -> None:
    upstream, wav = bare(tmp_path), str(soft_wav(tmp_path))
    mend_step(upstream.model.llm)
    upstream.add_zero_shot_spk("<|endofprompt|>", wav, "me")

    def bare_pitch(instruction: str) -> float:
        pieces = upstream.inference_instruct2(ASK, f"{instruction}<|endofprompt|>", "", zero_shot_spk_id="me")
        return pitch(np.concatenate([p["tts_speech"][0] for p in pieces]))

    assert bare_pitch("请用广东话表达。") == bare_pitch("请用四川话表达。"), "upstream drops the instruction"

    tts = engine(tmp_path)
    heard = {manner: round(pitch(spoken(tts, manner=manner))) for manner in ("", "cantonese", "sichuan")}
    assert len(set(heard.values())) == 3, heard
    assert heard["cantonese"] == round(pitch(spoken(tts, manner="cantonese")))


def test_a_listener_who_leaves_stops_the_models_thread(tmp_path: Path) -> None:
    upstream, wav = bare(tmp_path, token_ms=5), str(soft_wav(tmp_path))
    pieces = upstream.inference_zero_shot(ASK * 5, "<|endofprompt|>", wav, stream=True)
    next(pieces)
    pieces.close()
    assert kept(upstream.model), "upstream keeps the request"
    assert threads(), "and goes on thinking"
    assert wait(lambda: not threads())
    tokens = len(next(iter(upstream.model.tts_speech_token_dict.values())))
    assert tokens > 180, "to the end"

    tts = engine(tmp_path, {"token_ms": 5})
    model, asked = model_of(tts), []
    original = model.llm.llm.model.__call__
    model.llm.llm.model = lambda *a, **k: note_call(asked, original(*a, **k))
    mend_step(model.llm)
    pieces = tts.speak(ASK * 5, Style(), never)
    list(islice(pieces, 2))
    pieces.close()  # type: ignore[attr-defined]
    at_close = len(asked)
    assert wait(lambda: not threads())
    assert len(asked) <= at_close + 3, "it stops within a token or two"
    assert kept(model) == 0
    assert tts._mended.stuck == 0


def note_call(calls: list[int], out: Any) -> Any:
    calls.append(1)
    return out


def test_cancelled_while_nothing_has_come_yet(tmp_path: Path) -> None:
    tts = engine(tmp_path, {"token_ms": 5})
    began = time.monotonic()
    assert list(tts.speak(ASK * 5, Style(), lambda: time.monotonic() > began + 0.05)) == []
    assert wait(lambda: not threads())
    assert kept(model_of(tts)) == 0


def test_a_thread_that_hangs_ends_its_phrase_and_not_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cosyvoice_ground, "_LEAVE_S", 0.1)
    tts = engine(tmp_path, {"hang_after": 40}, tts_timeout_s=0.5)
    with pytest.raises(EngineError) as caught:
        spoken(tts)
    assert caught.value.code is Code.TTS_TIMEOUT
    model_of(tts).flaws.hang_after = -1
    assert spoken(tts).size, "the next phrase is spoken beside the stuck thread"
    assert tts._mended.stuck == 1
    sys.modules["cosyvoice.cli.model"].RELEASE.set()
    assert wait(lambda: not threads())
    assert tts._mended.stuck == 0
    assert kept(model_of(tts)) == 0, "the late thread clears up behind itself"


def test_a_model_that_hangs_again_and_again_is_given_up_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cosyvoice_ground, "_LEAVE_S", 0.05)
    tts = engine(tmp_path, {"hang_after": 0}, tts_timeout_s=0.2)
    codes = []
    for _ in range(4):
        with pytest.raises(EngineError) as caught:
            spoken(tts)
        codes.append(caught.value.code)
    assert codes == [Code.TTS_TIMEOUT] * 3 + [Code.TTS_FAILED]


@pytest.mark.parametrize("text", ["", "  \n", "。", "...", "\U0001f600", "<|endofprompt|>", "——"])
def test_nothing_to_say_reaches_no_model(tmp_path: Path, text: str) -> None:
    tts = engine(tmp_path)
    model_of(tts).llm.inference = None  # would raise
    assert spoken(tts, text).size == 0


@pytest.mark.parametrize("short", ["hang", "die", "nothing"])
def test_a_phrase_too_short_is_left_out_and_logged(
    tmp_path: Path, short: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cosyvoice_ground, "_LEAVE_S", 0.1)
    tts = engine(tmp_path, {"short": short}, tts_timeout_s=0.5)
    assert tts.shortest == 3
    with caplog.at_level(logging.WARNING):
        assert spoken(tts, "好").size == 0
    assert "too short" in caplog.text
    assert spoken(tts, "好的，请稍等。").size


def test_a_phrase_too_short_is_spoken_where_the_model_can(tmp_path: Path) -> None:
    assert spoken(engine(tmp_path), "好").size


def test_silence_for_words_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as caught:
        spoken(engine(tmp_path, {"silent": True}))
    assert caught.value.code is Code.TTS_EMPTY


def test_marks_of_the_model_are_not_obeyed(tmp_path: Path) -> None:
    tts = engine(tmp_path)
    assert np.array_equal(spoken(tts, f"<|endofprompt|>{ASK}"), spoken(tts, ASK))


def test_the_cache_of_transformers_5_can_be_indexed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class DynamicCache:
        layers = (SimpleNamespace(keys="k0", values="v0"), SimpleNamespace(keys="k1", values="v1"))

    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(DynamicCache=DynamicCache))
    mend_cache()
    assert DynamicCache()[1] == ("k1", "v1")


@pytest.mark.engines
def test_the_cached_step_of_a_real_qwen2_equals_the_whole() -> None:
    """Token by token over a cache, as upstream speaks, must give what one pass over everything gives."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=64, num_hidden_layers=2, **sizes)).eval()
    embeds = torch.randn(1, 12, 32)

    def as_upstream(xs: Any, masks: Any, cache: Any = None) -> tuple[Any, Any]:
        more = {"output_hidden_states": True, "return_dict": True, "use_cache": True, "past_key_values": cache}
        out = model(inputs_embeds=xs, attention_mask=masks[:, -1, :], **more)
        return out.hidden_states[-1], out.past_key_values

    def stepped(step: Any) -> Any:
        mask = torch.tril(torch.ones(1, 5, 5)).bool()
        hidden, cache = step(embeds[:, :5], mask, None)
        seen = [hidden]
        for i in range(5, 12):
            hidden, cache = step(embeds[:, i : i + 1], torch.ones(1, 1, 1).bool(), cache)
            seen.append(hidden)
        return torch.cat(seen, dim=1)

    lm = SimpleNamespace(llm=SimpleNamespace(model=model))
    mend_step(lm)
    with torch.inference_mode():
        whole = model(inputs_embeds=embeds, output_hidden_states=True).hidden_states[-1]
        try:
            bare = stepped(as_upstream)
        except (RuntimeError, ValueError, IndexError):
            bare = torch.zeros_like(whole)
        assert torch.allclose(stepped(lm.llm.forward_one_step), whole, atol=1e-4)
        assert not torch.allclose(bare, whole, atol=1e-2), (
            "this transformers reads upstream's mask right: no cure needed"
        )


# -- manners and voices


def test_only_trained_manners_are_accepted(tmp_path: Path) -> None:
    tts = engine(tmp_path)
    for manner in ("whispering", "cantonese,happy", "请用广东话表达。"):
        with pytest.raises(EngineError, match="cantonese") as caught:
            spoken(tts, manner=manner)
        assert caught.value.code is Code.UNKNOWN_MANNER
    assert not tts._mended._upstream.frontend.spk2info, "nothing of it reached the model"


def test_manners_of_the_settings_are_ready_at_warm_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tts = engine(tmp_path, manners="cantonese, sichuan")
    with caplog.at_level(logging.WARNING):
        tts.warm_up()
        assert set(tts._mended._upstream.frontend.spk2info) == {"xiaoni", "xiaoni/cantonese", "xiaoni/sichuan"}
        spoken(tts, manner="cantonese")
        assert "not prepared" not in caplog.text
        spoken(tts, manner="happy")
        assert "xiaoni/happy was not prepared" in caplog.text
    assert "xiaoni/happy" in tts._mended._upstream.frontend.spk2info


def test_an_unknown_manner_in_the_settings_is_named_at_warm_up(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="klingon") as caught:
        engine(tmp_path, manners="cantonese,klingon").warm_up()
    assert caught.value.code is Code.UNKNOWN_MANNER


def test_two_visitors_register_a_manner_once(tmp_path: Path) -> None:
    tts = engine(tmp_path, {"front_end_ms": 30})
    calls: list[str] = []
    original = tts._mended._upstream.add_zero_shot_spk
    tts._mended._upstream.add_zero_shot_spk = lambda *a: (calls.append(a[2]), original(*a))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: spoken(tts, manner="happy"), range(4)))
    assert calls == ["xiaoni/happy"]


def test_the_voices_of_the_project_are_whole() -> None:
    for voice in voices().values():
        assert voice.audio.is_file()
        assert voice.transcript
        assert voice.licence
        assert 1.0 < soundfile.info(voice.audio).duration < 30.0


def test_a_broken_voice_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "me.toml").write_text('en = "Me"\n', "utf-8")
    with pytest.raises(EngineError, match=r"me\.toml"):
        voices(tmp_path)


def soft_wav(folder: Path, seconds: float = 2.0, rate: int = 16_000) -> Path:
    path = folder / "prompt.wav"
    soundfile.write(path, 0.2 * np.sin(np.arange(round(seconds * rate)) / 9.0), rate)
    return path


@pytest.mark.parametrize(("seconds", "hop_s", "whole"), [(2.3, 1.0, 3.0), (2.3, 0.4, 2.4), (3.0, 1.0, 3.0)])
def test_a_prompt_is_whole_hops_long_and_loses_no_word(
    tmp_path: Path, seconds: float, hop_s: float, whole: float
) -> None:
    speech = 0.2 * np.sin(np.arange(round(seconds * 16_000)) / 9.0)
    soundfile.write(tmp_path / "me.wav", np.concatenate([np.zeros(8000), speech, np.zeros(5000)]), 16_000)
    made, rate = soundfile.read(prompt_wav(tmp_path / "me.wav", tmp_path / "cache", hop_s))
    assert made.size / rate == pytest.approx(whole, abs=1e-3)
    loud = np.flatnonzero(np.abs(made) > 0.01)
    assert (loud[-1] - loud[0]) / rate == pytest.approx(seconds, abs=0.01)


@pytest.mark.parametrize("flaw", ["silent", "long", "slow", "text"])
def test_a_recording_that_cannot_be_a_prompt_is_refused(tmp_path: Path, flaw: str) -> None:
    path = tmp_path / "me.wav"
    if flaw == "text":
        path.write_text("hello", "utf-8")
    elif flaw == "silent":
        soundfile.write(path, np.zeros(16_000), 16_000)
    else:
        soft_wav(tmp_path, 31.0 if flaw == "long" else 2.0, 8000 if flaw == "slow" else 16_000).rename(path)
    with pytest.raises(EngineError, match=r"me\.wav") as caught:
        prompt_wav(path, tmp_path / "cache", 1.0)
    assert caught.value.code is Code.TTS_FAILED


# -- the sound


def test_the_sound_begins_softly_and_loses_nothing(tmp_path: Path) -> None:
    audio = spoken(engine(tmp_path))
    assert np.abs(audio[:24]).max() < 0.05 < np.abs(audio[480:960]).max()
    # Three tokens a character; a tone ends on silence only within its last samples.
    assert audio.size / RATE == pytest.approx(3 * len(ASK) / 25 + 0.12, abs=0.01)


def test_pace_changes_the_length_and_not_the_pitch(tmp_path: Path) -> None:
    tts = engine(tmp_path)
    plain, fast = spoken(tts, "aaaaaaaaaaaaaaaaaaaa"), spoken(tts, "aaaaaaaaaaaaaaaaaaaa", speed=1.5)
    assert fast.size / plain.size == pytest.approx(1 / 1.5, abs=0.05)
    assert pitch(fast) == pytest.approx(pitch(plain), rel=0.02)


# -- many visitors, long runs


def test_twenty_visitors_at_once_each_hear_their_own(tmp_path: Path) -> None:
    tts = engine(tmp_path)
    texts = [f"您的订单号是{n}。" * 2 for n in range(20)]
    manners = ["", "cantonese", "sichuan", "happy"]
    style = [manners[n % 4] for n in range(20)]
    alone = [spoken(tts, text, manner=m) for text, m in zip(texts, style, strict=True)]
    with ThreadPoolExecutor(20) as pool:
        together = list(pool.map(lambda n: spoken(tts, texts[n], manner=style[n]), range(20)))
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one, other)
    assert kept(model_of(tts)) == 0


def test_some_of_many_leave_and_the_others_are_served(tmp_path: Path) -> None:
    tts = engine(tmp_path, {"token_ms": 0.2})

    def visit(n: int) -> int:
        if n % 2:
            pieces = tts.speak(ASK, Style(), never)
            next(pieces)
            pieces.close()  # type: ignore[attr-defined]
            return 1
        return spoken(tts).size

    whole = spoken(tts).size
    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(visit, range(20))) == [whole, 1] * 10
    assert wait(lambda: not threads())
    assert kept(model_of(tts)) == 0


@pytest.mark.memory
@pytest.mark.engines  # for the time it takes
def test_memory_is_flat_over_five_hundred_phrases(tmp_path: Path) -> None:
    tts = engine(tmp_path)

    def phrases(count: int) -> int:
        for n in range(count):
            pieces = tts.speak("您好。", Style(), never)
            if n % 5:
                list(pieces)
            else:
                next(pieces)
                pieces.close()  # type: ignore[attr-defined]
        assert wait(lambda: not threads())
        return resident()

    before = phrases(50)
    after = phrases(500)
    assert after - before < 8e6
    assert kept(model_of(tts)) == 0
    assert not tts._mended._requests


# -- the checkout


def test_without_a_checkout_the_way_to_one_is_named(tmp_path: Path) -> None:
    options = cosyvoice3(tmp_path)
    for home, code in (("", Code.KEY_MISSING), (str(tmp_path), Code.PACKAGE_MISSING)):
        changed: Any = type(options)(models=options.models, cache=options.cache, secret=lambda _, h=home: h)
        with pytest.raises(EngineError, match="make cosyvoice") as caught:
            create(Kind.TTS, "cosyvoice3", changed)
        assert caught.value.code is code


def test_a_checkout_without_its_submodule_is_told(tmp_path: Path) -> None:
    (tmp_path / "cosyvoice" / "cli").mkdir(parents=True)
    (tmp_path / "cosyvoice" / "cli" / "cosyvoice.py").touch()
    options: Any = type(cosyvoice3(tmp_path))(models=tmp_path / "models", secret=lambda _: str(tmp_path))
    with pytest.raises(EngineError, match="submodule update") as caught:
        create(Kind.TTS, "cosyvoice3", options)
    assert caught.value.code is Code.PACKAGE_MISSING


def test_importing_upstream_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == "cosyvoice"]:
        del sys.modules[name]
    before = logging.getLogger().level
    engine(tmp_path)
    assert sys.modules["cosyvoice.cli.cosyvoice"].__file__ == str(STAND_IN / "cosyvoice" / "cli" / "cosyvoice.py")
    assert logging.getLogger().level == before, "upstream sets it to DEBUG, which would log what visitors say"
    assert not [n for n in sys.modules if n.partition(".")[0] == "torchaudio" and sys.modules[n].__spec__ is None]
