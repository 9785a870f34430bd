"""A chat model on any server that speaks the OpenAI protocol: vLLM, llama.cpp, Ollama, or a hosted one.

Through the `openai` package (Apache-2.0): it reads the event stream, also where an error comes in the middle of one. It
is the asynchronous client, on one event loop in a thread of its own, because a task that is cancelled closes its
connection at once, and most servers stop computing when they notice.

The time to the first token is the server's own plus the network's: nothing here hides it.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from pipeline.engines.pump import taken
from pipeline.errors import Code, EngineError
from pipeline.ports import Cancel, EngineOptions, Message, ReplyLimits, Role, never

KEY = "OPENAI_API_KEY"
CONNECT_S = 3.0
FIRST_SHARE = 0.9  # of llm_timeout_s, waited for the first text: the session's own patience ends a little later
NEXT_SHARE = 0.5  # of llm_timeout_s, waited between two pieces of text
POLL_S = 0.01  # how often whoever waits looks at cancel()
QUOTED = 300  # characters of a server's own words in an error
TIMED = 100  # first tokens remembered

_Pieces: TypeAlias = "queue.SimpleQueue[str | EngineError | None]"  # None ends a reply


def build(options: EngineOptions) -> OpenAiLlm:
    """The engine; nothing is sent yet. EngineError LLM_FAILED when no server is named."""
    chosen = options.settings
    if urlsplit(chosen.llm_url).scheme not in ("http", "https") or not urlsplit(chosen.llm_url).hostname:
        what = f"llm_url is no address of a server: {chosen.llm_url!r}"
        raise EngineError(Code.LLM_FAILED, what, "set llm_url, such as http://127.0.0.1:8000/v1")
    return OpenAiLlm(chosen.llm_url, chosen.llm_model, options.secret(KEY), chosen.llm_timeout_s)


class OpenAiLlm:
    """Shared by every visitor; thread-safe. Each reply has a connection of its own."""

    name = "openai"

    def __init__(self, url: str, model: str, key: str, timeout_s: float) -> None:
        self._url = url
        self._model = model  # "" until the server was asked which it serves
        self._key = key
        self._timeout_s = timeout_s
        self._here = urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
        self._client = _client(url, key, self._here)
        self._loop = asyncio.new_event_loop()
        self.first_text_s: deque[float] = deque(maxlen=TIMED)  # seconds from a request to its first text, newest last
        threading.Thread(target=self._loop.run_forever, name="llm-openai", daemon=True).start()
        weakref.finalize(self, _end, self._loop, self._client)

    def warm_up(self) -> None:
        """One token: what is wrong with address, key or model shows here. EngineError as in `reply`."""
        for _ in self.reply([Message(Role.USER, "Hello")], never, ReplyLimits(max_tokens=1)):
            pass

    def warm(self, prefix: Sequence[Message]) -> None:
        """Let a server on this machine compute `prefix`; one elsewhere would be paid for it, and has a GPU."""
        if self._here and prefix:
            try:
                for _ in self.reply(prefix, never, ReplyLimits(max_tokens=1)):
                    pass
            except EngineError:
                pass  # work ahead only: the reply will say what is wrong

    def completeness(self, opening: Sequence[Message], said: str) -> float | None:
        """None: the protocol has no way to ask for the next token's chances inside the caller's turn."""
        return None

    def reply(self, messages: Sequence[Message], cancel: Cancel, limits: ReplyLimits) -> Iterator[str]:
        """Deltas as they come. Closing the iterator closes the connection.

        EngineError: NETWORK (no server), KEY_REFUSED, QUOTA, UNKNOWN_MODEL, LLM_TIMEOUT, or LLM_FAILED; with the
        server's own words where it has any.
        """
        if cancel():
            return
        pieces: _Pieces = queue.SimpleQueue()
        asking = asyncio.run_coroutine_threadsafe(self._ask(messages, limits, pieces.put), self._loop)
        try:
            yield from taken(pieces, cancel, POLL_S)
        finally:
            asking.cancel()

    async def _ask(
        self, messages: Sequence[Message], limits: ReplyLimits, put: Callable[[str | EngineError | None], None]
    ) -> None:
        """Always ends the stream, with None or an error; when cancelled nobody reads any more."""
        try:
            await self._stream(messages, limits, put)
            put(None)
        except Exception as error:
            put(self._coded(error))

    async def _stream(self, messages: Sequence[Message], limits: ReplyLimits, put: Callable[[str], None]) -> None:
        begun, first, finished = self._loop.time(), True, False
        async with asyncio.timeout(FIRST_SHARE * self._timeout_s) as patience:
            model = await self._served()
            stream = await self._client.chat.completions.create(
                model=model,
                messages=[{"role": m.role.value, "content": m.text} for m in messages],
                max_tokens=limits.max_tokens,
                temperature=limits.temperature,
                stream=True,
                extra_body=_without_thinking(model),
            )
            async with stream:
                async for chunk in stream:
                    for choice in chunk.choices or ():
                        finished = finished or choice.finish_reason is not None
                        if not (text := choice.delta.content):
                            continue  # a role or a thought: no sign that text will come
                        now = self._loop.time()
                        if first:
                            self.first_text_s.append(now - begun)
                        first = False
                        patience.reschedule(now + NEXT_SHARE * self._timeout_s)
                        put(text)
        if not finished:
            raise EngineError(Code.LLM_FAILED, f"{self._url} ended its reply before it was complete", "ask again")

    async def _served(self) -> str:
        """The model to ask for: the one named, or the first that the server says it serves."""
        if not self._model:
            listed = await self._client.models.list()
            if not listed.data:
                raise EngineError(Code.LLM_FAILED, f"{self._url} names no model", "set llm_model")
            self._model = listed.data[0].id
        return self._model

    def _coded(self, error: Exception) -> EngineError:
        """What went wrong, as an EngineError with the server's own words."""
        import httpx2
        import openai

        words, cause = self._words(error), error.__cause__
        match error:
            case EngineError():
                return error
            case TimeoutError():
                return EngineError(Code.LLM_TIMEOUT, f"{self._url} stays silent", "raise llm_timeout_s or ask again")
            case openai.AuthenticationError() | openai.PermissionDeniedError():
                what = f"{self._url} refuses the key: {words}" if self._key else f"{self._url} wants a key: {words}"
                return EngineError(Code.KEY_REFUSED, what, f"set {KEY}")
            case openai.NotFoundError():
                what = f"{self._url} does not know the model {self._model!r}: {words}"
                return EngineError(Code.UNKNOWN_MODEL, what, "set llm_model to one it serves, or mend llm_url")
            case openai.RateLimitError():
                return EngineError(Code.QUOTA, f"{self._url} accepts no more for now: {words}", "wait a moment")
            case openai.APIStatusError():
                what = f"{self._url} answers {error.status_code}: {words}"
                return EngineError(Code.LLM_FAILED, what, "look at the server")
            case openai.APIConnectionError() if isinstance(cause, httpx2.RemoteProtocolError | httpx2.ReadError):
                return EngineError(
                    Code.LLM_FAILED, f"{self._url} broke off: {cause or words or type(error).__name__}", "ask again"
                )
            case openai.APIConnectionError() | httpx2.TransportError():
                what = f"{self._url} cannot be reached: {cause or words}"
                return EngineError(Code.NETWORK, what, "start the server, or mend llm_url")
            case openai.APIError():
                return EngineError(Code.LLM_FAILED, f"{self._url} failed in its reply: {words}", "ask again")
        return EngineError(Code.LLM_FAILED, f"{self._url} sent what is no chat completion: {words}", "mend llm_url")

    def _words(self, error: Exception) -> str:
        """The server's own words, without the key, which some servers repeat."""
        body = getattr(error, "body", None)
        said = body.get("message") if isinstance(body, dict) else body
        words = " ".join(str(said or error or type(error).__name__).split())[:QUOTED]
        return words.replace(self._key, "***") if self._key else words


def _client(url: str, key: str, here: bool) -> Any:
    import httpx2
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    limits = httpx2.Timeout(None, connect=CONNECT_S)  # other waits are bounded where they are awaited
    client = AsyncOpenAI(
        base_url=url,
        api_key=key or "none",  # the package wants one; a server without keys ignores it
        max_retries=0,  # a caller who waits is told at once
        # A proxy of the environment must not stand between this machine and itself.
        http_client=DefaultAsyncHttpxClient(timeout=limits, trust_env=not here),
    )
    client.organization = client.project = None  # the package reads them from the environment; engines do not
    return client


def _without_thinking(model: str) -> dict[str, Any] | None:
    """Qwen3 thinks aloud unless told not to: vLLM and llama.cpp take the first form, DashScope the second."""
    if "qwen3" not in model.lower():
        return None
    return {"chat_template_kwargs": {"enable_thinking": False}, "enable_thinking": False}


def _end(loop: asyncio.AbstractEventLoop, client: Any) -> None:
    """Close what is open and let the loop's thread go."""

    async def close() -> None:
        await client.close()
        loop.stop()

    if loop.is_running():
        asyncio.run_coroutine_threadsafe(close(), loop)
