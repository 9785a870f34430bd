"""The prompt format of SmolLM2, and what ends a message or a sentence in it. Shared by the engines that run it."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.meaning import END_MARKS
from pipeline.ports import Message, Role

STOPS = ("<|im_end|>", "<|im_start|>", "\n")
ENDINGS = (".", "?", "!", "<|im_end|>", "\n")  # how a token that ends a sentence begins


def chatml(messages: Sequence[Message], role: Role | None = None, begun: str = "") -> str:
    """The prompt in the model's own format; with `role`, a message of that role is left open after `begun`."""
    prompt = "".join(f"<|im_start|>{m.role}\n{_plain(m.text)}<|im_end|>\n" for m in messages)
    return prompt if role is None else f"{prompt}<|im_start|>{role}\n{_plain(begun)}"


def chatml_upto(opening: Sequence[Message], said: str) -> str | None:
    """The prompt up to the end of the caller's words `said`, their turn still open; None when there are none."""
    begun = said.rstrip(END_MARKS)
    return chatml(opening, Role.USER, begun) if begun.strip() else None


def _plain(text: str) -> str:
    # What a caller says is data: without its bars a marker cannot open a role of its own.
    return text.replace("\0", "").replace("<|", "< ").replace("|>", " >").strip()
