"""Any chat model on this machine, run by the transformers library (Apache-2.0), one token of one visitor at a time.

For few visitors at once: a prompt's beginning is taken over from the conversation's last turn (chat_prefix.py), so the
first token comes soonest. Visitors who speak at the same time take turns token by token. Where many do, on a GPU,
`transformers-batched` computes their tokens together.

The loop over tokens is our own and not `generate`: it runs in the reader's thread, so there is no thread to outlive a
closed reply, an error is simply raised, and cancel() is looked at before every token. It takes the likeliest token, or
one by temperature out of the model's own top_k and top_p. A model's repetition penalty is left out: it counts the
prompt's words too, and the facts of the prompt are what a reply should repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pipeline.engines.chat_ground import Chat, failing, load_chat
from pipeline.engines.chat_prefix import Counts, Prefixes, Run
from pipeline.engines.registry import Kind, row
from pipeline.ports import Cancel, EngineOptions, Message, ReplyLimits, Role, never


def build(options: EngineOptions) -> TransformersLlm:
    """The engine, loaded. EngineError: as in chat_ground.load_chat."""
    return TransformersLlm(load_chat(row(Kind.LLM, TransformersLlm.name), options))


class TransformersLlm:
    """Shared by every visitor; thread-safe."""

    name = "transformers"

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self._prefixes = Prefixes(chat)

    @property
    def counts(self) -> Counts:
        """What the reuse of prompts has saved so far."""
        return self._prefixes.counts

    def warm_up(self) -> None:
        for _ in self.reply([Message(Role.USER, "Hello")], never, ReplyLimits(max_tokens=2)):
            pass

    def warm(self, prefix: Sequence[Message]) -> None:
        """Compute `prefix` and keep it. EngineError LLM_FAILED."""
        if prefix:
            self._prefixes.ahead(self.chat.prompt(prefix, ask=False))

    def completeness(self, opening: Sequence[Message], said: str) -> float | None:
        """P(a sentence ends after `said`); None when nothing was said, or the model cannot be asked."""
        return self._prefixes.completeness(opening, said)

    def reply(self, messages: Sequence[Message], cancel: Cancel, limits: ReplyLimits) -> Iterator[str]:
        """Deltas, each computed when it is asked for. EngineError LLM_FAILED."""
        if cancel():
            return
        prompt = self.chat.prompt(messages)
        run = self._prefixes.begin(prompt)
        try:
            with failing():
                yield from self._deltas(run, prompt, cancel, limits)
        finally:
            self._prefixes.keep(run)

    def _deltas(self, run: Run, prompt: Sequence[int], cancel: Cancel, limits: ReplyLimits) -> Iterator[str]:
        pick, write = self._picker(limits.temperature), self.chat.writer()
        ahead = prompt[len(run.ids) :]
        for _ in range(min(limits.max_tokens, self.chat.context - len(prompt))):
            logits = run.feed(ahead, cancel)
            if logits is None or (token := pick(logits)) in self.chat.stops:
                return
            if piece := write(token):
                yield piece
            ahead = [token]

    def _picker(self, temperature: float) -> Callable[[Any], int]:
        """From logits of shape (vocabulary,) to the next token."""
        if temperature <= 0.0:
            return lambda logits: int(logits.argmax())
        import torch
        from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

        own = self.chat.model.generation_config
        warp: Any = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
        if own.top_k:
            warp.append(TopKLogitsWarper(own.top_k))
        if own.top_p and own.top_p < 1.0:
            warp.append(TopPLogitsWarper(own.top_p))
        dice = torch.Generator(device=self.chat.device)  # of its own: torch's belongs to all engines
        dice.seed()
        return lambda logits: int(torch.multinomial(warp(None, logits[None]).softmax(-1), 1, generator=dice))
