"""The openai engine against a real server process on loopback, well and ill."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import pytest

from pipeline.clock import SystemClock
from pipeline.engines.openai_llm import KEY, OpenAiLlm
from pipeline.engines.registry import Kind, create
from pipeline.errors import Code, EngineError
from pipeline.ports import EngineOptions, Message, ReplyLimits, Role, never
from pipeline.settings import Settings
from tests.tiny.chat_server import ChatServer, answer

SYSTEM = Message(Role.SYSTEM, "You answer in one short sentence.")
STORY = [Message(Role.USER, "Tell me a long story")]
SECRET = "sk-tiny-123"


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    served = ChatServer().start()
    yield served
    served.stop()


@pytest.fixture(scope="module")
def engines(server: ChatServer) -> Callable[..., OpenAiLlm]:
    """Engines for one way of failing each, with a short patience."""

    def make(model: str = "tiny", url: str = "", key: str = "", timeout_s: float = 1.0) -> OpenAiLlm:
        chosen = Settings(llm_url=url or server.url, llm_model=model, llm_timeout_s=timeout_s)
        secrets = {KEY: key}
        engine = create(Kind.LLM, "openai", EngineOptions(settings=chosen, secret=lambda name: secrets[name]))
        assert isinstance(engine, OpenAiLlm)
        return engine

    return make


def said(text: str) -> list[Message]:
    return [SYSTEM, Message(Role.USER, text)]


def told(text: str, limit: int = 64) -> str:
    return "".join(answer([{"role": "user", "content": text}])[:limit])


def ask(llm: OpenAiLlm, text: str = "What colour is it?", limit: int = 64) -> str:
    return "".join(llm.reply(said(text), never, ReplyLimits(max_tokens=limit)))


def code_of(llm: OpenAiLlm) -> tuple[Code, str, list[str]]:
    """How a reply fails, and what came before."""
    pieces: list[str] = []
    with pytest.raises(EngineError) as caught:
        pieces.extend(llm.reply(said("What colour is it?"), never, ReplyLimits()))
    return caught.value.code, str(caught.value), pieces


def eventually(true: Callable[[], bool]) -> bool:
    clock = SystemClock()
    until = clock.now() + 5.0
    while not true() and clock.now() < until:
        clock.sleep(0.02)
    return true()


def test_a_reply_comes_in_pieces_and_keeps_to_its_limit(server: ChatServer, engines: Any) -> None:
    llm = engines()
    pieces = list(llm.reply(said("What colour is it?"), never, ReplyLimits(temperature=0.5)))
    assert "".join(pieces) == told("What colour is it?")
    assert len(pieces) > 5
    assert ask(llm, limit=3) == told("What colour is it?", 3)
    asked = server.state()["last"]
    assert asked["stream"] is True
    assert asked["model"] == "tiny"
    assert asked["max_tokens"] == 3
    assert asked["messages"] == [{"role": m.role.value, "content": m.text} for m in said("What colour is it?")]


def test_text_split_anywhere_on_the_wire_arrives_whole(engines: Any) -> None:
    assert ask(engines("tiny:split"), "今天 天气 怎么样 呢") == told("今天 天气 怎么样 呢")


def test_a_key_is_sent_and_none_is_needed_here(server: ChatServer, engines: Any) -> None:
    ask(engines(key=SECRET))
    assert server.state()["last"]["key"] == f"Bearer {SECRET}"
    ask(engines())
    assert SECRET not in server.state()["last"]["key"]


def test_without_a_name_the_server_is_asked_for_its_model(server: ChatServer, engines: Any) -> None:
    assert ask(engines("")) == told("What colour is it?")
    assert server.state()["last"]["model"] == "tiny"


@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        ("401", Code.KEY_REFUSED, KEY),
        ("403", Code.KEY_REFUSED, KEY),
        ("404", Code.UNKNOWN_MODEL, "does not exist"),
        ("429", Code.QUOTA, "no: 429"),
        ("500", Code.LLM_FAILED, "no: 500"),
        ("hang", Code.LLM_TIMEOUT, "silent"),
        ("html", Code.LLM_FAILED, "complete"),
    ],
)
def test_a_server_that_refuses_is_a_coded_error_in_its_words(engines: Any, how: str, code: Code, words: str) -> None:
    found, text, pieces = code_of(engines(f"tiny:{how}", key=SECRET))
    assert (found, pieces) == (code, [])
    assert words in text
    assert SECRET not in text, "some servers repeat the key; a page does not"


@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        ("stall", Code.LLM_TIMEOUT, "silent"),
        ("cut", Code.LLM_FAILED, "broke off"),
        ("short", Code.LLM_FAILED, "complete"),
        ("error", Code.LLM_FAILED, "out of memory"),
        ("garbage", Code.LLM_FAILED, "no chat completion"),
    ],
)
def test_a_reply_that_breaks_keeps_what_came_and_ends_with_an_error(
    engines: Any, how: str, code: Code, words: str
) -> None:
    found, text, pieces = code_of(engines(f"tiny:{how}"))
    assert found is code
    assert words in text
    assert "".join(pieces) == told("What colour is it?", 2)


def test_nobody_there_is_a_network_error(engines: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        llm = engines(url=f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        with pytest.raises(EngineError) as caught:
            llm.warm_up()
        llm.warm([SYSTEM])  # work ahead: the reply will tell
    assert caught.value.code is Code.NETWORK


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://127.0.0.1/v1", "http:///v1"])
def test_without_an_address_it_is_not_made(url: str) -> None:
    with pytest.raises(EngineError, match="llm_url"):
        create(Kind.LLM, "openai", EngineOptions(settings=Settings(llm_url=url)))


def test_cancelling_closes_the_connection_at_once(server: ChatServer, engines: Any) -> None:
    llm, heard = engines(), list[str]()
    before = server.state()["dropped"]
    for piece in llm.reply(STORY, lambda: len(heard) >= 2, ReplyLimits(max_tokens=400)):
        heard.append(piece)
    assert len(heard) == 2
    assert eventually(lambda: server.state()["dropped"] == before + 1)
    assert server.state()["open"] == 0
    assert list(llm.reply(STORY, lambda: True, ReplyLimits())) == []


def test_closing_before_the_first_token_closes_the_connection_too(server: ChatServer, engines: Any) -> None:
    llm = engines("tiny:hang", timeout_s=60.0)
    before, stop = server.state(), threading.Event()
    threading.Timer(0.2, stop.set).start()
    assert list(llm.reply(STORY, stop.is_set, ReplyLimits())) == []
    assert eventually(lambda: server.state()["dropped"] == before["dropped"] + 1)


def test_a_closed_iterator_lets_go(server: ChatServer, engines: Any) -> None:
    llm = engines()
    for _ in range(5):
        pieces = llm.reply(STORY, never, ReplyLimits(max_tokens=400))
        assert len(list(islice(pieces, 2))) == 2
        pieces.close()
    assert eventually(lambda: server.state()["open"] == 0)
    assert ask(llm) == told("What colour is it?")


def test_the_wait_for_the_first_token_is_recorded_as_it_is(engines: Any) -> None:
    quick, slow = engines(), engines("tiny:slow", timeout_s=5.0)
    ask(quick), ask(slow)
    assert len(quick.first_text_s) == len(slow.first_text_s) == 1
    assert slow.first_text_s[0] >= 0.3 > quick.first_text_s[0] > 0.0


def test_twenty_visitors_at_once_are_told_their_own(engines: Any) -> None:
    llm = engines(timeout_s=20.0)
    with ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(lambda n: ask(llm, f"my number is {n}"), range(20)))
    assert replies == [told(f"my number is {n}") for n in range(20)]


def test_it_warms_a_server_on_this_machine_only(server: ChatServer, engines: Any) -> None:
    before = server.state()["requests"]
    engines().warm([SYSTEM])
    assert server.state()["requests"] == before + 1
    elsewhere = engines(url="http://192.0.2.1:9/v1")
    elsewhere.warm([SYSTEM])  # would wait for its connect timeout and fail
    assert elsewhere.completeness([SYSTEM], "How much is it") is None


def test_thinking_is_switched_off_where_a_model_would_think(server: ChatServer, engines: Any) -> None:
    from pipeline.engines.openai_llm import _without_thinking

    assert _without_thinking("tiny") is None
    wish = _without_thinking("Qwen/Qwen3-0.6B")
    assert wish is not None
    assert wish["chat_template_kwargs"] == {"enable_thinking": False}


def test_an_engine_let_go_takes_its_thread_along(engines: Any) -> None:
    def alive() -> int:
        return sum(t.name == "llm-openai" for t in threading.enumerate())

    llm = engines()
    ask(llm)
    before = alive()
    del llm
    gc.collect()
    assert eventually(lambda: alive() < before)
