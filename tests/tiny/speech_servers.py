"""Two speech services on loopback, with what goes wrong at real ones: an OpenAI-style endpoint and DashScope's
websocket protocol (as its client speaks it). Their speech is a tone a phrase, 24 kHz.

Words in the text or in the voice's name say what shall happen: see `Trouble`.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

RATE = 24_000
KEY = "a-key"


def hertz(text: str, voice: str = "", instruction: str = "") -> float:
    return 200.0 + 5.0 * (zlib.crc32(f"{text}|{voice}|{instruction}".encode()) % 100)


def speech(text: str, speed: float, pitch: float) -> bytes:
    """int16 bytes: 0.1 s of silence, 60 ms a character, 0.3 s of silence."""
    voiced = np.sin(2 * np.pi * pitch * np.arange(round(0.06 * len(text) / speed * RATE)) / RATE) * 0.4
    audio = np.concatenate([np.zeros(RATE // 10), voiced, np.zeros(RATE * 3 // 10)])
    return (audio * 32767).astype("<i2").tobytes()


def packets(sound: bytes, size: int) -> Iterator[bytes]:
    yield from (sound[at : at + size] for at in range(0, len(sound), size))


@dataclass
class Seen:
    """What a server was asked, and what became of it."""

    asked: list[dict[str, Any]] = field(default_factory=list)
    broken: int = 0  # connections that the client closed before the end
    cancelled: int = 0
    whole: int = 0


class Trouble:
    """What may stand in a text: it happens then."""

    SLOW = "slowly"  # a packet every 50 ms
    HANG = "hanging"  # nothing comes
    BREAK = "breaking"  # the connection ends half way
    SILENT = "silently"  # only silence
    BUSY = "busily"  # over the quota


class OpenaiServer:
    """POST /v1/audio/speech with chunked PCM."""

    def __init__(self, odd: int = 1001) -> None:
        """`odd`: bytes a packet, an odd number on purpose."""
        self.seen = seen = Seen()
        self.stopping = stopping = threading.Event()

        class Answer(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                seen.asked.append(asked | {"path": self.path, "key": self.headers.get("authorization", "")})
                text = asked["input"]
                if self.headers.get("authorization") != f"Bearer {KEY}":
                    return self.refuse(401, "invalid api key")
                if asked.get("voice") == "nobody":
                    return self.refuse(400, "voice 'nobody' is not known")
                if Trouble.BUSY in text:
                    return self.refuse(429, "rate limit")
                if Trouble.HANG in text:
                    stopping.wait()
                self.send_response(200)
                self.send_header("content-type", "audio/pcm")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                pitch = hertz(text, asked.get("voice", asked.get("ref_text", "")), asked.get("instructions", ""))
                sound = speech(text, asked.get("speed", 1.0), pitch)
                if Trouble.SILENT in text:
                    sound = bytes(len(sound))
                try:
                    for n, packet in enumerate(packets(sound, odd)):
                        if Trouble.SLOW in text:
                            time.sleep(0.05)
                        if Trouble.BREAK in text and n > 10:
                            self.close_connection = True
                            return None
                        self.wfile.write(f"{len(packet):x}\r\n".encode() + packet + b"\r\n")
                        self.wfile.flush()
                    self.wfile.write(b"0\r\n\r\n")
                    seen.whole += 1
                except OSError:
                    seen.broken += 1
                    self.close_connection = True
                return None

            def refuse(self, status: int, why: str) -> None:
                said = json.dumps({"error": {"message": why}}).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), name="speech-server", daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()


class DashscopeServer:
    """The duplex task protocol: run-task, continue-task, finish-task; task-started, packets, task-finished."""

    def __init__(self, odd: int = 999) -> None:
        self.seen = Seen()
        self.stopping = threading.Event()
        self._odd = odd
        self._server: Server = serve(self._visit, "127.0.0.1", 0, process_request=self._admit, close_timeout=1)
        threading.Thread(target=self._server.serve_forever, name="websocket-speech-server", daemon=True).start()
        self.url = f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}/api-ws/v1/inference"

    def close(self) -> None:
        self.stopping.set()
        self._server.shutdown()

    def _admit(self, connection: ServerConnection, request: Any) -> Any:
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return connection.respond(401, "invalid api key\n")
        return None

    def _visit(self, connection: ServerConnection) -> None:
        try:
            task, text = {}, ""
            for message in connection:
                asked = json.loads(message)
                action = asked["header"]["action"]
                if action == "run-task":
                    task = asked["payload"]["parameters"] | {"model": asked["payload"]["model"]}
                    self.seen.asked.append(task)
                    if task["voice"] == "nobody":
                        return self._fail(connection, asked, "InvalidParameter", "voice nobody is not known")
                    self._say(connection, asked, "task-started")
                elif action == "continue-task":
                    text += asked["payload"]["input"]["text"]
                    task["text"] = text
                elif action == "finish-task":
                    if asked["payload"]["input"].get("directive") == "cancel":
                        self.seen.cancelled += 1
                    elif not self._speak(connection, asked, task, text):
                        continue
                    self._say(connection, asked, "task-finished")
        except ConnectionClosed:
            self.seen.broken += 1

    def _speak(self, connection: ServerConnection, asked: Any, task: dict[str, Any], text: str) -> bool:
        """False where the task was not spoken to its end."""
        if Trouble.BUSY in text:
            self._fail(connection, asked, "Throttling.RateQuota", "requests are throttled")
            return False
        if Trouble.HANG in text:
            return False
        pitch = hertz(text, task["voice"], task.get("instruction", ""))
        sound = speech(text, task["rate"], pitch)
        if Trouble.SILENT in text:
            sound = bytes(len(sound))
        for n, packet in enumerate(packets(sound, self._odd)):
            if Trouble.BREAK in text and n > 10:
                connection.close()
                return False
            if Trouble.SLOW in text and self._asked_to_stop(connection):
                return True
            connection.send(packet)
        self.seen.whole += 1
        return True

    def _asked_to_stop(self, connection: ServerConnection) -> bool:
        try:
            message = json.loads(connection.recv(timeout=0.05))
        except TimeoutError:
            return False
        stop = message["payload"]["input"].get("directive") == "cancel"
        self.seen.cancelled += stop
        return bool(stop)

    def _say(self, connection: ServerConnection, asked: Any, event: str, **more: str) -> None:
        header = {"task_id": asked["header"]["task_id"], "event": event, "attributes": {}} | more
        connection.send(json.dumps({"header": header, "payload": {}}))

    def _fail(self, connection: ServerConnection, asked: Any, code: str, why: str) -> None:
        self._say(connection, asked, "task-failed", error_code=code, error_message=why)
