"""A ModelScope hub on loopback: it serves what a test puts there, slowly or damaged where the test says so."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pipeline.engines.hub import HubModel

PIECE = 16 << 10


@dataclass
class Asked:
    """One request for a file."""

    file: str
    start: int  # first byte asked for
    sent: int = 0  # bytes


@dataclass
class Repository:
    """The files of one model, and how they are served."""

    files: dict[str, bytes]
    damaged: set[str] = field(default_factory=set)  # their last byte is not what was listed
    bytes_per_s: float = 0.0  # 0: as fast as it goes
    asked: list[Asked] = field(default_factory=list)
    listings: int = 0


class TinyHub:
    """`with TinyHub() as hub: hub.put("org/name", {"model.pt": b"..."}); fetch(..., hub.url)`."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        hub = self

        class Request(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                hub._answer(self)

            do_HEAD = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Request)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> TinyHub:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def put(self, name: str, files: dict[str, bytes], **how: Any) -> Repository:
        self.repositories[name] = Repository(files, **how)
        return self.repositories[name]

    def _answer(self, request: Any) -> None:
        url = urlsplit(request.path)
        name, _, what = url.path.removeprefix("/api/v1/models/").partition("/repo")
        repository = self.repositories.get(name)
        if repository is None or not url.path.startswith("/api/v1/models/"):
            return _json(request, {"Code": 404, "Success": False, "Message": "not found"}, 404)
        if what == "/files":
            repository.listings += 1
            listed = [
                {
                    "Path": path,
                    "Name": path,
                    "Type": "blob",
                    "Size": len(content),
                    "Sha256": hashlib.sha256(content).hexdigest(),
                }
                for path, content in repository.files.items()
            ]
            return _json(request, {"Code": 200, "Success": True, "Data": {"Files": listed}})
        return _file(request, repository, parse_qs(url.query).get("FilePath", [""])[0])


def _json(request: Any, answer: dict[str, Any], status: int = 200) -> None:
    body = json.dumps(answer).encode()
    request.send_response(status)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def _file(request: Any, repository: Repository, path: str) -> None:
    content = repository.files.get(path)
    if content is None:
        return _json(request, {"Code": 404, "Success": False, "Message": "no such file"}, 404)
    if path in repository.damaged:
        content = content[:-1] + bytes([content[-1] ^ 1])
    wanted = request.headers.get("Range", "")
    start = int(wanted.partition("=")[2].partition("-")[0]) if wanted else 0
    asked = Asked(path, start)
    repository.asked.append(asked)
    request.send_response(206 if wanted else 200)
    if wanted:
        request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    request.send_header("Content-Length", str(len(content) - start))
    request.end_headers()
    try:
        for at in range(start, len(content), PIECE):
            piece = content[at : at + PIECE]
            request.wfile.write(piece)
            asked.sent += len(piece)
            if repository.bytes_per_s:
                time.sleep(len(piece) / repository.bytes_per_s)
    except OSError:  # whoever asked has gone
        request.close_connection = True
    return None


def served(model: HubModel, size: int) -> dict[str, bytes]:
    """Files that fit the patterns of `model`: the first of `size` bytes, the others of five."""
    names = [pattern.replace("*", "x") for pattern in model.patterns] or ["model.pt"]
    return {name: os.urandom(size if n == 0 else 5) for n, name in enumerate(names)}
