"""FunASR's engines on tiny models that the real classes load: what a pause is told, whose cache is whose, and that the
process is left as it was found."""

from __future__ import annotations

import gc
import logging
import random
import re
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.engines import funasr_ground as ground
from pipeline.engines.paraformer import Heard, SenseVoice, parsed, words
from pipeline.engines.registry import Kind, create, row
from pipeline.errors import Code, EngineError
from pipeline.ports import CAPTURE_RATE, EngineOptions, Samples
from pipeline.settings import Settings
from tests.memory import growth
from tests.tiny import funasr as tiny

pytestmark = pytest.mark.engines

ROWS = tuple(tiny.OPTIONS)
ASR = [name for kind, name in ROWS if kind is Kind.ASR]
VISITORS = 20
SAID = tiny.syllables(3.3, seed=1)  # no whole number of Paraformer's windows
MARKS = "，。？、,.?"
LEAK = 8_192  # bytes a hearing


def process_state() -> dict[str, Any]:
    """What FunASR would change for everybody."""
    import torch

    return {
        "threads": torch.get_num_threads(),
        "handlers": list(logging.root.handlers),
        "level": logging.root.level,
        "python": random.getstate(),
        "numpy": np.random.get_state()[1].tolist(),  # type: ignore[index, union-attr]
        "torch": torch.random.get_rng_state().tolist(),
    }


@pytest.fixture(scope="module")
def bare_process() -> Iterator[None]:
    """As in production: nobody has a handler at the root (pytest does), and torch has threads to lose."""
    import torch

    handlers, logging.root.handlers = logging.root.handlers, []
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)
    logging.root.handlers = handlers


@pytest.fixture(scope="module")
def loaded(bare_process: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every engine by name, with what it was made from, what it told on the way, and the process before and after."""
    told: list[tuple[str, float]] = []
    before = process_state()
    ground.library(lambda what, share: told.append((what, share)))
    imported = process_state()
    made: dict[str, Any] = {"told": told, "states": [before, imported], "folders": {}}
    for kind, name in ROWS:
        folder = tmp_path_factory.mktemp(name)
        options = replace(tiny.OPTIONS[kind, name](folder), progress=lambda what, share: told.append((what, share)))
        here = process_state()
        made[name] = create(kind, name, options)  # type: ignore[call-overload]
        assert process_state() == here, f"loading {name} left traces"
        made["folders"][name] = folder
    made["states"].append(process_state())
    return made


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """Every call of a model from here on: its name and what went over its settings."""
    calls: list[tuple[str, dict[str, Any]]] = []
    infer = ground.Model.infer

    def spy(self: ground.Model, given: Any, **how: Any) -> Any:
        calls.append((self.name, how))
        return infer(self, given, **how)

    monkeypatch.setattr(ground.Model, "infer", spy)
    return calls


def heard(engine: Any, audio: Samples, step: int = 1600, language: str = "") -> str:
    """Fed in steps with a partial after each, as a session does; the text of the pause at its end."""
    hearing = engine.listen(language)
    for at in range(0, audio.size, step):
        hearing.feed(audio[at : at + step])
        hearing.partial()
    return hearing.settled()


def bare(text: str) -> str:
    """Without punctuation, and small."""
    return re.sub(f"[{MARKS} ]", "", text).lower()


# -- the process


def test_the_import_and_the_models_leave_no_traces(loaded: dict[str, Any]) -> None:
    before, imported, after = loaded["states"]
    assert imported == before
    assert (after["handlers"], after["level"], after["threads"]) == (before["handlers"], before["level"], 2)


def test_calls_leave_no_traces(loaded: dict[str, Any]) -> None:
    """But for a few numbers that ct-punc's encoder draws from torch's generator, unasked; it is not seeded."""
    import torch

    def state() -> dict[str, Any]:
        return process_state() | {"torch": torch.initial_seed()}

    before = state()
    for name in ASR:
        heard(loaded[name], SAID)
        loaded[name].warm_up()
    stream = loaded["fsmn-vad"].stream()
    for at in range(0, 9600, 480):
        stream.probability(SAID[at : at + 480])
    assert state() == before


def test_progress_is_told_while_the_library_is_imported_and_each_model_loaded(loaded: dict[str, Any]) -> None:
    told = loaded["told"]
    assert ("fsmn-vad", 1.0) in told
    assert ("sensevoice-small", 1.0) in told
    importing = [share for what, share in told if what == "funasr"]
    assert importing == sorted(importing)
    assert all(0.0 <= share <= 1.0 for _, share in told)


@pytest.mark.parametrize(("kind", "name"), ROWS)
def test_no_name_is_looked_up_on_the_network(
    loaded: dict[str, Any], kind: Kind, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups: list[Any] = []

    def refuse(*given: Any, **_: Any) -> Any:
        lookups.append(given)
        raise OSError("no network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    options = EngineOptions(models=loaded["folders"][name], settings=Settings(device="cpu"))
    create(kind, name, options).warm_up()  # type: ignore[call-overload]
    assert not lookups


@pytest.mark.parametrize(("kind", "name"), ROWS)
def test_a_missing_model_is_said_at_once_with_what_fetches_it(kind: Kind, name: str, tmp_path: Path) -> None:
    began = time.perf_counter()
    with pytest.raises(EngineError) as caught:
        create(kind, name, EngineOptions(models=tmp_path))  # type: ignore[call-overload]
    assert time.perf_counter() - began < 1.0
    assert caught.value.code is Code.WEIGHTS_MISSING
    assert f"python -m pipeline download {row(kind, name).models[0].name}" in caught.value.remedy


def _no_config(folder: Path) -> None:
    (folder / "config.yaml").unlink()


def _cut_short(folder: Path) -> None:
    (folder / "model.pt").write_bytes((folder / "model.pt").read_bytes()[:2000])


def _of_another_shape(folder: Path) -> None:
    text = (folder / "config.yaml").read_text("utf-8")
    (folder / "config.yaml").write_text(text.replace('"linear_dim": 16', '"linear_dim": 12'), "utf-8")


@pytest.mark.parametrize("damage", [_no_config, _cut_short, _of_another_shape])
def test_a_damaged_model_is_a_coded_error(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    damage(tiny.fsmn_vad(tmp_path))
    with pytest.raises(EngineError) as caught:
        create(Kind.VAD, "fsmn-vad", EngineOptions(models=tmp_path, settings=Settings(device="cpu")))
    assert caught.value.code is Code.WEIGHTS_CORRUPT
    assert "python -m pipeline download fsmn-vad" in caught.value.remedy


def test_a_device_that_is_not_there_is_no_reason_to_take_another_silently(loaded: dict[str, Any]) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(EngineError, match="CUDA"):
        create(
            Kind.ASR,
            "paraformer",
            EngineOptions(models=loaded["folders"]["paraformer"], settings=Settings(device="cuda")),
        )


def test_a_missing_package_is_met_with_its_pip_line(loaded: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "kaldi_native_fbank", None)
    with pytest.raises(EngineError) as caught:
        create(Kind.VAD, "fsmn-vad", EngineOptions(models=loaded["folders"]["fsmn-vad"]))
    assert caught.value.code is Code.PACKAGE_MISSING
    assert "kaldi-native-fbank==" in caught.value.remedy


# -- running text and the text of a pause


@pytest.fixture(scope="module")
def once(loaded: dict[str, Any]) -> Callable[[Samples], str]:
    """The library's own text of a whole recording, given at once."""
    with ground.untouched_logging(), ground.untouched_torch("cpu"):
        auto = ground.library()(
            model=str(loaded["folders"]["paraformer"] / "paraformer-zh-streaming"),
            device="cpu",
            ncpu=1,
            disable_update=True,
            disable_pbar=True,
            frontend_conf={"dither": 0.0},
        )
    how = {"chunk_size": [0, 10, 5], "encoder_chunk_look_back": 4, "decoder_chunk_look_back": 1, "is_final": True}

    def text(audio: Samples) -> str:
        with ground.untouched_torch("cpu"):
            return str(auto.generate(input=audio, cache={}, key="-", **how)[0]["text"])

    return text


def test_a_pause_holds_the_last_character_and_running_text_is_what_came_before_it(
    loaded: dict[str, Any], once: Callable[[Samples], str]
) -> None:
    hearing = loaded["paraformer"].listen()
    hearing.feed(SAID)
    running, settled, whole = hearing.partial(), hearing.settled(), once(SAID)
    assert bare(settled) == bare(whole)
    assert whole.startswith(running)
    assert len(running) < len(whole), "something is held back until the pause"


@pytest.mark.parametrize("step", [37, 160, 1600, 9600, 10_001, SAID.size])
def test_fed_in_pieces_of_any_length_the_text_is_the_same(loaded: dict[str, Any], step: int) -> None:
    expected = {name: heard(loaded[name], SAID, SAID.size) for name in ASR}
    assert all(expected.values())
    hearing = {name: loaded[name].listen() for name in ASR}
    for name in ASR:
        for at in range(0, SAID.size, step):
            hearing[name].feed(SAID[at : at + step])
            if step > 1000:
                hearing[name].partial()
    assert {name: h.settled() for name, h in hearing.items()} == expected


def test_words_of_two_calls_are_kept_apart_and_halves_put_together() -> None:
    assert words(["hel@@", "lo", "ok"]) == "hello ok"
    assert words(["你", "好", "wor@@", "ld", "再", "见"]) == "你好world再见"
    assert words(["ok", "hel@@"]) == "ok hel"
    assert words([]) == words(["<unk>"]) == ""


def test_running_text_only_grows(loaded: dict[str, Any]) -> None:
    hearing, texts = loaded["paraformer"].listen(), [""]
    for at in range(0, SAID.size, 1600):
        hearing.feed(SAID[at : at + 1600])
        texts.append(hearing.partial())
    assert all(b.startswith(a) for a, b in pairwise(texts))
    assert len(set(texts)) > 3


@pytest.mark.parametrize("name", ASR)
def test_who_goes_on_after_a_pause_is_heard_as_if_there_had_been_none(loaded: dict[str, Any], name: str) -> None:
    hearing, texts = loaded[name].listen(), []
    for at in range(0, SAID.size, 4000):
        hearing.feed(SAID[at : at + 4000])
        texts.append(hearing.settled())
    assert texts[-1] == heard(loaded[name], SAID)
    assert len(set(texts)) > 3


@pytest.mark.parametrize("name", ASR)
def test_asked_again_the_answer_is_the_same_and_free(
    loaded: dict[str, Any], name: str, asked: list[tuple[str, dict[str, Any]]]
) -> None:
    hearing = loaded[name].listen()
    hearing.feed(SAID)
    first = hearing.settled()
    calls = len(asked)
    assert [hearing.settled(), hearing.finish()] == [first, first]
    assert len(asked) == calls


@pytest.mark.parametrize("name", ASR)
def test_running_text_costs_paraformer_alone(
    loaded: dict[str, Any], name: str, asked: list[tuple[str, dict[str, Any]]]
) -> None:
    hearing = loaded[name].listen()
    for at in range(0, SAID.size, 4800):
        hearing.feed(SAID[at : at + 4800])
        hearing.partial()
    assert {model for model, _ in asked} == {"paraformer-zh-streaming"}
    assert len(asked) == -(-SAID.size // 4800)


@pytest.mark.parametrize("chunk", ["0,10,5", "0,8,4"])
def test_the_window_is_the_setting_s(
    loaded: dict[str, Any], chunk: str, asked: list[tuple[str, dict[str, Any]]]
) -> None:
    options = EngineOptions(
        models=loaded["folders"]["paraformer"], settings=Settings(device="cpu", paraformer_chunk=chunk)
    )
    assert heard(create(Kind.ASR, "paraformer", options), SAID)
    assert {tuple(how["chunk_size"]) for _, how in asked if "chunk_size" in how} == {
        tuple(int(frames) for frames in chunk.split(","))
    }


def test_punctuation_is_put_to_the_words_and_changes_none(loaded: dict[str, Any]) -> None:
    text = heard(loaded["paraformer"], SAID)
    assert set(text) & set(MARKS)
    assert "<" not in text


# -- SenseVoice


def test_the_tags_are_never_in_the_text_and_the_emotion_is_told(loaded: dict[str, Any]) -> None:
    hearing = loaded["sensevoice"].listen("zh")
    hearing.feed(SAID)
    assert hearing.emotion == ""
    text = hearing.settled()
    assert text
    assert not re.search(r"[<>|]", text)
    assert hearing.emotion == "happy"
    hearing.feed(SAID)
    assert hearing.emotion == "", "of the new audio nothing is known yet"


@pytest.mark.parametrize(
    ("asked_for", "language"),
    [("", "zh"), ("zh", "zh"), ("yue", "yue"), ("en", "en"), ("ja", "ja"), ("ko", "ko"), ("zh-CN", "zh"), ("fr", "zh")],
)
def test_it_is_told_the_language_expected(
    loaded: dict[str, Any], asked: list[tuple[str, dict[str, Any]]], asked_for: str, language: str
) -> None:
    """The tiny model says Chinese when it has to find out."""
    ears = SenseVoice(loaded["sensevoice"]._best._model)
    assert ears.of((), SAID, asked_for).language == language
    heard(loaded["sensevoice"], SAID, language=asked_for)
    assert [how["language"] for _, how in asked if "language" in how] == [
        asked_for.partition("-")[0] if asked_for not in ("", "fr") else "auto"
    ] * 2


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("<|zh|><|HAPPY|><|Speech|><|withitn|>你好。", Heard("你好。", "happy", "zh")),
        ("<|yue|><|NEUTRAL|><|Speech|><|withitn|>唔該。", Heard("唔該。", "neutral", "yue")),
        ("<|en|><|EMO_UNKNOWN|><|BGM|><|woitn|>hello", Heard("hello", "", "en")),
        ("<|ja|><|SURPRISED|><|Speech|><|withitn|>え<|Laughter|>っ", Heard("えっ", "surprised", "ja")),
        ("<|zh|><|SAD|><|Speech|><|withitn|>a \u2047 b", Heard("a  b", "sad", "zh")),
        ("<|nospeech|><|EMO_UNKNOWN|><|Event_UNK|><|withitn|>.", Heard()),
        ("<|zh|><|ANGRY|><|Speech|><|withitn|>。", Heard()),
        ("<|a new tag|>你好", Heard("你好")),
        ("", Heard()),
    ],
)
def test_its_answer_is_taken_apart(raw: str, expected: Heard) -> None:
    assert parsed(raw) == expected


def test_an_emotion_it_cannot_tell_is_none(tmp_path: Path) -> None:
    tiny.paraformer(tmp_path)
    tiny.sensevoice(tmp_path, emotion="EMO_UNKNOWN")
    options = EngineOptions(models=tmp_path, settings=Settings(device="cpu"))
    hearing = create(Kind.ASR, "sensevoice", options).listen("zh")
    hearing.feed(SAID)
    assert hearing.settled()
    assert hearing.emotion == ""


# -- visitors


@pytest.mark.parametrize("name", ASR)
def test_two_visitors_by_turns_are_heard_as_if_alone(loaded: dict[str, Any], name: str) -> None:
    voices = [tiny.syllables(2.5, seed) for seed in (11, 12)]
    alone = [heard(loaded[name], voice) for voice in voices]
    assert alone[0] != alone[1]
    hearings = [loaded[name].listen() for _ in voices]
    for at in range(0, voices[0].size, 1600):
        for hearing, voice in zip(hearings, voices, strict=True):
            hearing.feed(voice[at : at + 1600])
            hearing.partial()
            if at % 8000 == 0:
                hearing.settled()
    assert [h.settled() for h in hearings] == alone


@pytest.mark.parametrize("name", ASR)
def test_twenty_visitors_at_once_are_heard_as_if_alone(loaded: dict[str, Any], name: str) -> None:
    voices = [tiny.syllables(1.0 + 0.1 * visitor, seed=visitor) for visitor in range(VISITORS)]
    alone = [heard(loaded[name], voice, 8000) for voice in voices]
    with ThreadPoolExecutor(VISITORS) as pool:
        together = list(pool.map(lambda voice: heard(loaded[name], voice, 8000), voices))
    assert together == alone
    assert len(set(alone)) > VISITORS // 2


def test_twenty_vad_visitors_at_once_are_heard_as_if_alone(loaded: dict[str, Any]) -> None:
    def listen(visitor: int) -> list[float]:
        stream, voice = loaded["fsmn-vad"].stream(), tiny.syllables(1.0, seed=visitor)
        return [stream.probability(voice[at : at + 480]) for at in range(0, 14_400, 480)]

    with ThreadPoolExecutor(VISITORS) as pool:
        together = list(pool.map(listen, range(VISITORS)))
    assert together == [listen(visitor) for visitor in range(VISITORS)]


@pytest.mark.parametrize("name", ASR)
def test_a_failure_has_a_code_and_the_next_visitor_is_served(
    loaded: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = heard(loaded[name], SAID)
    network = loaded[name]._writer._model.network
    with monkeypatch.context() as broken:
        broken.setattr(network, "inference", lambda **_: 1 / 0)
        hearing = loaded[name].listen()
        hearing.feed(SAID)
        with pytest.raises(EngineError, match="ZeroDivisionError") as caught:
            hearing.partial()
        assert caught.value.code is Code.ASR_FAILED
    assert heard(loaded[name], SAID) == expected


@pytest.mark.memory
@pytest.mark.parametrize("name", ASR)
def test_memory_stays_flat_over_five_hundred_calls(loaded: dict[str, Any], name: str) -> None:
    import torch

    def call() -> None:  # five of them
        hearing = loaded[name].listen()
        for at in range(0, 9600, 3200):
            hearing.feed(SAID[at : at + 3200])
            hearing.partial()
        hearing.settled()
        hearing.finish()

    def tensors() -> int:
        gc.collect()
        return sum(torch.is_tensor(thing) for thing in gc.get_objects())

    call()
    held = tensors()
    assert growth(call, calls=100) < LEAK
    assert tensors() <= held + 5


# -- audio of every kind


def test_16_bit_audio_and_bytes_are_read_as_what_they_are(loaded: dict[str, Any]) -> None:
    exact = (np.round(SAID * 32768) / 32768).astype(np.float32)
    pcm = (exact * 32768).astype("<i2")
    expected = heard(loaded["paraformer"], exact)
    for given in (pcm, pcm.tobytes(), exact.astype(np.float64), exact[:, None]):
        hearing = loaded["paraformer"].listen()
        hearing.feed(given)
        assert hearing.settled() == expected


def test_broken_samples_become_silence_and_nothing_goes_beyond_full_scale() -> None:
    given = np.array([0.5, np.nan, np.inf, -np.inf, 3.0, -3.0], np.float32)
    assert ground.clean(given).tolist() == [0.5, 0.0, 0.0, 0.0, 1.0, -1.0]
    assert ground.clean(np.array([-32768, 16384], np.int16)).tolist() == [-1.0, 0.5]
    assert ground.clean(b"").size == 0
    assert np.isnan(given[1]), "the caller's audio is left alone"


@pytest.mark.parametrize("name", ASR)
def test_what_is_silent_or_too_short_has_no_words(
    loaded: dict[str, Any], name: str, asked: list[tuple[str, dict[str, Any]]]
) -> None:
    for audio in (np.zeros(3 * CAPTURE_RATE), np.full(CAPTURE_RATE, np.nan), SAID[:1000], np.zeros(0)):
        hearing = loaded[name].listen()
        hearing.feed(audio.astype(np.float32))
        assert [hearing.partial(), hearing.settled(), hearing.finish(), hearing.emotion] == ["", "", "", ""]
    assert not asked


@pytest.mark.parametrize("name", ASR)
def test_silence_before_the_first_word_is_not_lost_on_what_follows(loaded: dict[str, Any], name: str) -> None:
    audio = np.concatenate([np.zeros(8000, np.float32), SAID])
    hearing = loaded[name].listen()
    for at in range(0, audio.size, 1600):
        hearing.feed(audio[at : at + 1600])
        hearing.partial()
    assert hearing.settled() == heard(loaded[name], audio, audio.size)


# -- fsmn-vad


def test_speech_begins_and_ends_for_each_visitor_alone(loaded: dict[str, Any]) -> None:
    """One speaks while the other is silent, then the other way round: neither is told the other's silence."""
    vad = loaded["fsmn-vad"]
    voice, quiet = tiny.syllables(1.5, seed=3), np.zeros(24_000, np.float32)
    first, second = vad.stream(), vad.stream()

    def both(one: Samples, other: Samples) -> tuple[float, float]:
        last = (0.0, 0.0)
        for at in range(0, 24_000, 480):
            last = first.probability(one[at : at + 480]), second.probability(other[at : at + 480])
        return last

    for _ in range(3):
        assert both(quiet, quiet)[0] < 0.1
        speaking, silent = both(voice, quiet)
        assert silent < 0.1
        silent, speaking = both(quiet, voice)
        assert silent < 0.1
        assert speaking > 0.3


def test_the_silence_setting_that_all_callers_would_share_is_never_touched(loaded: dict[str, Any]) -> None:
    model = loaded["fsmn-vad"]._model
    before = dict(vars(model.network.vad_opts))
    stream = loaded["fsmn-vad"].stream()
    for at in range(0, SAID.size - 480, 480):
        stream.probability(SAID[at : at + 480])
    assert vars(model.network.vad_opts) == before


def test_posteriors_of_exactly_one_and_nought_are_no_error(tmp_path: Path) -> None:
    """A silence posterior of 0 or 1 ends the library's own state machine with "math domain error"."""
    tiny.fsmn_vad(tmp_path, gain=1000.0)
    stream = create(Kind.VAD, "fsmn-vad", EngineOptions(models=tmp_path, settings=Settings(device="cpu"))).stream()
    loud, quiet = np.tile(np.float32([1.0, -1.0]), 240), np.zeros(480, np.float32)
    assert [stream.probability(loud) for _ in range(10)][-1] == 1.0
    assert [stream.probability(quiet) for _ in range(10)][-1] == 0.0


def test_a_vad_stream_of_minutes_holds_no_more_than_one_of_a_second(loaded: dict[str, Any]) -> None:
    import torch

    stream = loaded["fsmn-vad"].stream()

    def held() -> int:
        kept = [*stream._overlap.values(), *stream._memory.values()]
        flat = [part for value in kept for part in (value if isinstance(value, list) else [value])]
        return sum(part.untyped_storage().nbytes() for part in flat if torch.is_tensor(part))

    for count in (40, 1000):
        for _ in range(count):
            stream.probability(SAID[:480])
        if count == 40:
            before = held()
    assert held() <= before * 1.5
