"""The same local chat models for many visitors at once: transformers' continuous batching computes one token of
everybody in one pass, and takes new replies in between.

Meant for a GPU, where a pass costs about the same for one visitor as for eight. Prompts share their beginnings in pages
of PAGE tokens, checked by the library against the tokens themselves. What `completeness` asks is computed beside the
batch, with prefixes of its own (chat_prefix.py): the batch gives out tokens only, no distribution.

Where it differs from `transformers`: sampling is by temperature alone, since sorting the vocabulary for every token of
everybody would cost more than the pass; and a token comes to the reader through two threads.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from pipeline.engines.chat_ground import Chat, failing, load_chat
from pipeline.engines.chat_prefix import Counts, Prefixes
from pipeline.engines.registry import Kind, row
from pipeline.errors import Code, EngineError
from pipeline.ports import Cancel, EngineOptions, Message, ReplyLimits, Role, never

PAGE = 32  # tokens: a shared beginning is found in whole pages
PAGES = 512  # 16,384 tokens of all visitors together
TOGETHER = 512  # tokens of one pass: everybody's next one, and as much of new prompts as fits
GREEDY = 1e-7  # a temperature that takes the likeliest token: the batch samples for all or for nobody
POLL_S = 0.01  # how often whoever waits looks at cancel()
STOP_S = 5.0

_Outputs: TypeAlias = queue.SimpleQueue[Any]  # the library's GenerationOutput; an EngineError ends the reply


def build(options: EngineOptions) -> TransformersBatched:
    """The engine, loaded. EngineError: as in chat_ground.load_chat."""
    return TransformersBatched(load_chat(row(Kind.LLM, TransformersBatched.name), options))


class TransformersBatched:
    """Shared by every visitor; thread-safe."""

    name = "transformers-batched"

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self._prefixes = Prefixes(chat)
        self._batch = Batch(chat)
        self.stop = weakref.finalize(self, self._batch.stop)  # ends the loop; nobody has to call it

    @property
    def counts(self) -> Counts:
        """What the reuse of prompts has saved `completeness` so far."""
        return self._prefixes.counts

    def warm_up(self) -> None:
        for _ in self.reply([Message(Role.USER, "Hello")], never, ReplyLimits(max_tokens=2)):
            pass

    def warm(self, prefix: Sequence[Message]) -> None:
        """Compute `prefix`, so that its whole pages are shared from then on. EngineError LLM_FAILED."""
        if prefix:
            for _ in self._tokens(self.chat.prompt(prefix, ask=False), never, ReplyLimits(max_tokens=1)):
                pass

    def completeness(self, opening: Sequence[Message], said: str) -> float | None:
        """P(a sentence ends after `said`); None when nothing was said, or the model cannot be asked."""
        return self._prefixes.completeness(opening, said)

    def reply(self, messages: Sequence[Message], cancel: Cancel, limits: ReplyLimits) -> Iterator[str]:
        """Deltas as they are made. EngineError LLM_FAILED. Closing the iterator takes the reply out of the batch."""
        if cancel():
            return
        prompt, write = self.chat.prompt(messages), self.chat.writer()
        for token in self._tokens(prompt, cancel, limits):
            if token in self.chat.stops:
                return
            with failing():
                piece = write(token)
            if piece:
                yield piece

    def _tokens(self, prompt: Sequence[int], cancel: Cancel, limits: ReplyLimits) -> Iterator[int]:
        most = min(limits.max_tokens, self.chat.context - len(prompt))
        name, outputs = self._batch.add(prompt, most, limits.temperature or GREEDY)
        told = 0
        try:
            while not cancel():
                try:
                    output = outputs.get(timeout=POLL_S)
                except queue.Empty:
                    continue
                if isinstance(output, EngineError):
                    raise output
                yield from output.generated_tokens[told:]
                told = len(output.generated_tokens)
                if output.error is not None:
                    raise EngineError(Code.LLM_FAILED, f"the batch failed: {output.error}", "ask again")
                if output.is_finished():
                    return
        finally:
            self._batch.drop(name)


class Batch:
    """The loop that computes everybody's tokens, and who gets which. It begins with the first reply, and anew with the
    next one if an error ended it. Thread-safe."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._loop: Any = None  # the library's ContinuousBatchingManager
        self._readers: dict[str, tuple[Any, _Outputs]] = {}  # whose loop, and where its outputs go
        self._made = 0
        self._lock = threading.Lock()

    def add(self, prompt: Sequence[int], most: int, temperature: float) -> tuple[str, _Outputs]:
        """Take a reply into the batch: its name, and the queue its outputs come through. EngineError LLM_FAILED."""
        with self._lock, failing():
            if self._loop is None or not self._loop.is_running():
                self._loop = self._begin()
            self._made += 1
            name, outputs = f"reply-{self._made}", queue.SimpleQueue[Any]()
            self._readers[name] = (self._loop, outputs)
            taken = self._loop.add_request(
                list(prompt), request_id=name, max_new_tokens=most, streaming=True, temperature=temperature
            )
            if taken is None:  # it is just about to end
                del self._readers[name]
                raise EngineError(Code.LLM_FAILED, "the batch has stopped", "ask again")
        return name, outputs

    def drop(self, name: str) -> None:
        """Nobody reads `name` any more: no pass after the present one computes it."""
        with self._lock:
            loop, _ = self._readers.pop(name, (None, None))
            if loop is not None:
                loop.cancel_request(name)

    def stop(self) -> None:
        """End the loop; whoever still reads is told."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None and loop.is_running():
            with suppress(RuntimeError):  # collected as garbage in its own thread: it cannot await itself
                loop.stop(block=True, timeout=STOP_S, hard_stop=True)

    def _begin(self) -> Any:
        import transformers
        from transformers.generation.configuration_utils import ContinuousBatchingConfig

        library: Any = transformers  # without types where it is called here
        stops = sorted(self._chat.stops)
        loop = self._chat.model.init_continuous_batching(
            # Any temperature but 1 makes the library heed each reply's own.
            generation_config=library.GenerationConfig(
                do_sample=True, temperature=GREEDY, top_k=0, top_p=1.0, eos_token_id=stops, pad_token_id=stops[0]
            ),
            continuous_batching_config=ContinuousBatchingConfig(
                page_size=PAGE,
                num_blocks=PAGES,
                max_batch_tokens=TOGETHER,
                per_request_processors=True,
                auto_switch_to_flash=False,  # it would look for kernels on a hub
            ),
        )
        started = threading.Event()
        threading.Thread(target=self._hand_out, args=(loop, started), name="llm-batch", daemon=True).start()
        started.wait()
        return loop

    def _hand_out(self, loop: Any, started: threading.Event) -> None:
        """Runs in a thread of its own until the loop ends. Started from here, the loop's thread is a daemon as well,
        and does not keep the process alive."""
        loop.start()
        started.set()
        for output in loop:
            self._give(output)
        while (output := loop.get_result(timeout=0.0)) is not None:
            self._give(output)
        error = loop.background_thread_status.fatal_error
        what = f"the batch stopped: {error}" if error else "the batch was stopped"
        with self._lock:
            left = [name for name, (whose, _) in self._readers.items() if whose is loop]
            for name in left:
                self._readers.pop(name)[1].put(EngineError(Code.LLM_FAILED, what, "ask again"))

    def _give(self, output: Any) -> None:
        with self._lock:
            _, outputs = self._readers.get(output.request_id, (None, None))
        if outputs is not None:
            outputs.put(output)
