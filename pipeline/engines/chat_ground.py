"""What the engines that run a chat model in this process share: finding it, loading it, its prompt and its text.

Anything that the transformers library loads with AutoModelForCausalLM and that has a chat template will do. The
presets are the models of the engine's row; a model of the operator's own is named by its directory.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.engines.hub import locate_model
from pipeline.engines.registry import Row
from pipeline.errors import Code, EngineError
from pipeline.meaning import END_MARKS
from pipeline.ports import EngineOptions, Message, Role

ENDINGS = (".", "?", "!", "。", "？", "！", "…", "\n")  # how the text of a token that ends a sentence begins
CANDIDATES = 20  # likeliest next tokens looked at for an ending
CONTEXT = 4096  # tokens: a spoken conversation needs a tenth; a longer prompt would be prefilled for minutes on a CPU


def load_chat(row: Row, options: EngineOptions) -> Chat:
    """The model that the settings name. EngineError: WEIGHTS_MISSING, WEIGHTS_CORRUPT, LLM_FAILED (no such device)."""
    folder = find_model(row, options)
    options.progress(folder.name, 0.0)
    # OpenMP's threads spin at every barrier, and beside another busy thread a pass of 10 ms takes 45 (measured on 2
    # cores). Read once, when the library loads.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    device = _device(options.settings.device, torch.cuda.is_available())
    # Most CPUs have no arithmetic in bfloat16, which the weights come in; a GPU takes them as they are.
    dtype = torch.float32 if device == "cpu" else "auto"
    try:
        with _no_bars():
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            options.progress(folder.name, 0.2)
            model: Any = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=dtype)
        model = model.to(device).eval()
        return Chat(model, tokenizer, options.threads)
    except (ImportError, EngineError):
        raise
    except Exception as error:
        what = f"{folder} holds no chat model that can be loaded: {error}"
        raise EngineError(Code.WEIGHTS_CORRUPT, what, "fetch it again, or name another in llm_model") from error


def find_model(row: Row, options: EngineOptions) -> Path:
    """The directory that `llm_model` names: a preset's, or its own. EngineError WEIGHTS_MISSING."""
    wanted = options.settings.llm_model or row.models[0].name
    for preset in row.models:
        if preset.name == wanted:
            return locate_model(preset, options)
    folder = Path(wanted).expanduser()
    if folder.is_dir():
        return folder
    known = ", ".join(m.name for m in row.models)
    what = f"llm_model: there is no preset and no directory named {wanted!r}"
    raise EngineError(Code.WEIGHTS_MISSING, what, f"presets: {known}")


def _device(wanted: str, cuda: bool) -> str:
    if wanted == "cuda" and not cuda:
        raise EngineError(Code.LLM_FAILED, "device is cuda, but torch finds none", "set device to auto or cpu")
    return "cuda" if cuda and wanted != "cpu" else "cpu"


@contextmanager
def _no_bars() -> Iterator[None]:
    """Without the library's progress bars on the console; its own setting is left as it was."""
    from transformers import utils

    logging: Any = utils.logging
    before = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if before:
            logging.enable_progress_bar()


@contextmanager
def failing() -> Iterator[None]:
    """Whatever goes wrong inside is an EngineError LLM_FAILED."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        what = f"the language model failed: {error or type(error).__name__}"
        raise EngineError(Code.LLM_FAILED, what, "start the conversation again") from error


class Chat:
    """A model with its tokenizer, shared by every visitor; keeps nothing between calls."""

    def __init__(self, model: Any, tokenizer: Any, threads: int) -> None:
        if not tokenizer.chat_template:
            raise EngineError(Code.WEIGHTS_CORRUPT, f"{model.name_or_path} has no chat template", "name a chat model")
        self.model = model
        self.device = model.device
        self._tokenizer = tokenizer
        # The tokenizer's own calls set truncation on a shared object, and two threads that do so at once get "Already
        # borrowed". The object below is only read.
        self._backend = tokenizer.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()
        self._marks = tuple(
            t.content
            for t in tokenizer.added_tokens_decoder.values()
            if t.special or (t.content.startswith("<") and t.content.endswith(">"))
        )
        self.stops = _stops(model, tokenizer)
        self.context = min(CONTEXT, getattr(model.config.get_text_config(), "max_position_embeddings", CONTEXT))
        if self.device.type == "cpu":
            _bound_threads(model, threads)

    def prompt(self, messages: Sequence[Message], ask: bool = True) -> list[int]:
        """Token numbers of the conversation; with `ask`, up to where the reply begins, thinking switched off.

        EngineError LLM_FAILED when it leaves no room for a reply, or the template refuses it.
        """
        ids: list[int] = self._backend.encode(self._render(messages, ask), add_special_tokens=False).ids
        if len(ids) >= self.context:
            what = f"the conversation has {len(ids)} tokens, and the model takes {self.context}"
            raise EngineError(Code.LLM_FAILED, what, "start the conversation again")
        return ids

    def prompt_upto(self, opening: Sequence[Message], said: str) -> list[int] | None:
        """Token numbers up to the end of the caller's words `said`, their turn still open; None when there are none,
        when they are too many, or the template rewrites them."""
        begun = self._plain(said.rstrip(END_MARKS))
        text = self._render([*opening, Message(Role.USER, begun)], ask=False)
        end = text.rfind(begun) + len(begun)
        if not begun or end < len(begun):
            return None
        ids: list[int] = self._backend.encode(text[:end], add_special_tokens=False).ids
        return ids if len(ids) < self.context else None

    def writer(self) -> Callable[[int], str]:
        """Turns the tokens of one reply into text, one by one: "" until a character is whole.

        Chinese punctuation comes with its own token: TextIteratorStreamer would hold it back until the next one.
        """
        from tokenizers.decoders import DecodeStream

        stream = DecodeStream(skip_special_tokens=True)
        return lambda token: stream.step(self._backend, token) or ""

    def ending(self, logits: Any) -> float:
        """For logits of shape (vocabulary,): the share of next tokens that end a sentence, among the likeliest."""
        import torch

        shares, tokens = torch.topk(torch.softmax(logits, -1), min(CANDIDATES, logits.numel()))
        pairs = zip(shares.tolist(), tokens.tolist(), strict=True)
        return float(min(1.0, sum(p for p, token in pairs if token in self.stops or self._ends(token))))

    def _ends(self, token: int) -> bool:
        text: str = self._backend.decode([token], skip_special_tokens=True)
        return text.lstrip(" ").startswith(ENDINGS)

    def _render(self, messages: Sequence[Message], ask: bool) -> str:
        turns = [{"role": m.role.value, "content": self._plain(m.text)} for m in messages]
        try:
            text: str = self._tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=ask, enable_thinking=False
            )
        except Exception as error:
            raise EngineError(Code.LLM_FAILED, f"the model's chat template refuses: {error}") from error
        return text

    def _plain(self, text: str) -> str:
        # What a caller says is data: a mark with a space in it cannot open a role of its own.
        text = text.replace("\0", "")
        while any(mark in text for mark in self._marks):
            for mark in self._marks:
                text = text.replace(mark, f"{mark[0]} {mark[1:]}")
        return text.strip()


def _stops(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends a reply: the model's own list and the tokenizer's end of turn."""
    named = model.generation_config.eos_token_id
    listed = named if isinstance(named, list) else [named]
    return frozenset(i for i in (*listed, tokenizer.eos_token_id) if i is not None)


def _bound_threads(model: Any, threads: int) -> None:
    """Every forward pass of this model uses `threads` threads, whoever calls it, and leaves torch's number as it was:
    that number belongs to all engines."""
    import torch

    before = threading.local()

    def bound(*_: Any) -> None:
        before.number = torch.get_num_threads()
        if before.number != threads:
            torch.set_num_threads(threads)

    def give_back(*_: Any) -> None:
        if before.number != threads:
            torch.set_num_threads(before.number)

    model.register_forward_pre_hook(bound)
    model.register_forward_hook(give_back, always_call=True)
