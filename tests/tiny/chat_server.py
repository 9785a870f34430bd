"""An OpenAI-style chat server in a process of its own, on loopback: `ChatServer().start()`.

What it says follows from what it is asked, so that visitors can be told apart. The model's name tells it how to fail:
"tiny" answers, "tiny:401" and "tiny:429" refuse, "tiny:cut" breaks off, and so on (FAILURES). /state tells what it saw.
"""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FAILURES = "401 403 404 429 500 html hang slow split stall cut short error garbage".split()
EACH_S = 0.002  # between two tokens
SLOW_S = 0.3  # before the first one of "slow"


def answer(messages: list[dict[str, str]]) -> list[str]:
    """The tokens of the reply: the last words asked, word by word or, in Chinese, sign by sign."""
    asked = messages[-1]["content"].split()
    if not asked:
        return ["I", " heard", " nothing", "."]
    told = ["You", " said", ":", *(f" {w}" for w in asked[-4:]), "。", "好", "！"]
    return told * 40 if "story" in " ".join(asked) else told


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: dict[str, Any]
    lock: threading.Lock

    def log_message(self, *_: object) -> None:
        """Nothing on the console."""

    def do_GET(self) -> None:
        known = {"data": [{"id": "tiny", "object": "model"}], "object": "list"}
        self._whole(200, self.state if self.path == "/state" else known)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name, _, how = asked["model"].partition(":")
        with self.lock:
            self.state["requests"] += 1
            self.state["last"] = {"key": self.headers.get("Authorization", ""), **asked}
        if name != "tiny" or how == "404" or (how and how not in FAILURES):
            self._refuse(404, f"The model `{asked['model']}` does not exist.")
        elif how in ("401", "403", "429", "500"):
            self._refuse(int(how), f"no: {how} for {self.headers.get('Authorization', '')}")
        elif how == "html":
            self._send(200, b"<html>Welcome to the proxy</html>", "text/html")
        else:
            with self.lock:
                self.state["open"] += 1
            try:
                self._stream(asked, how)
            except OSError:
                with self.lock:
                    self.state["dropped"] += 1
            finally:
                with self.lock:
                    self.state["open"] -= 1
                self.close_connection = True

    def _refuse(self, status: int, words: str) -> None:
        self._whole(status, {"error": {"message": words, "type": "tiny", "code": None}})

    def _whole(self, status: int, body: Any) -> None:
        self._send(status, json.dumps(body).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, asked: dict[str, Any], how: str) -> None:
        if how == "hang":
            self._wait(60.0)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
        if how == "slow":
            self._wait(SLOW_S)
        tokens = answer(asked["messages"])
        for at, token in enumerate(tokens[: asked["max_tokens"]]):
            self._wait(EACH_S)
            if at == 2 and self._fails(how):
                return
            self._event({"choices": [{"index": 0, "delta": {"content": token}, "finish_reason": None}]}, how == "split")
        why = "stop" if len(tokens) <= asked["max_tokens"] else "length"
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": why}]})
        self._event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": len(tokens), "total_tokens": 2}})
        self._bytes(b"data: [DONE]\n\n")
        self._bytes(b"")

    def _fails(self, how: str) -> bool:
        """Whether the reply is over, after what makes it fail."""
        if how == "stall":
            self._wait(60.0)
        if how == "cut":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
        if how == "short":
            self._bytes(b"")
        if how == "error":
            self._event({"error": {"message": "out of memory", "type": "tiny", "code": 500}})
        if how == "garbage":
            self._bytes(b'data: {"choices": oops\n\n')
        return how in ("cut", "short", "error", "garbage")

    def _event(self, body: dict[str, Any], split: bool = False) -> None:
        whole = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "tiny", **body}
        data = b"data: " + json.dumps(whole, ensure_ascii=False).encode() + b"\n\n"
        for piece in [data[i : i + 1] for i in range(len(data))] if split else [data]:
            self._bytes(piece)

    def _bytes(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _wait(self, seconds: float) -> None:
        """Pass the time; OSError as soon as the other side is gone."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            readable, _, _ = select.select([self.connection], [], [], left)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                raise BrokenPipeError("the client has gone")


def serve() -> None:
    """Serve until standard input is closed; the port is the first line of output."""
    state: dict[str, Any] = {"requests": 0, "open": 0, "dropped": 0, "last": {}}
    answering = type("Answering", (_Answering,), {"state": state, "lock": threading.Lock()})
    # Twenty visitors connect at the same moment; the library's own queue of five would refuse some of them.
    ThreadingHTTPServer.request_queue_size = 64
    server = ThreadingHTTPServer(("127.0.0.1", 0), answering)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


class ChatServer:
    """The process, seen from a test. It ends with `stop`, or when the test process does."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.root = ""

    def start(self) -> ChatServer:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.tiny.chat_server"],
            cwd=Path(__file__).parent.parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.root = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    @property
    def url(self) -> str:
        return f"{self.root}/v1"

    def state(self) -> dict[str, Any]:
        """What it saw: requests, open streams, dropped ones, and the last request."""
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{self.root}/state") as got:
            found: dict[str, Any] = json.load(got)
        return found

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.communicate()
            self._process = None


if __name__ == "__main__":
    serve()
