"""A server for tests that says what it is told to say. Each request gets the next answer of its script."""

from __future__ import annotations

import json
import socket
import struct
import threading
import unittest
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable

AsyncTestCase = unittest.IsolatedAsyncioTestCase
TestCase = unittest.TestCase


@dataclass
class Received:
    method: str
    url: str
    headers: dict[str, str]
    body: str


class Exchange(BaseHTTPRequestHandler):
    """One request, and the means to answer it."""

    protocol_version = "HTTP/1.1"
    server: "Script"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do(self) -> None:
        size = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(size).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        received = Received(self.command, self.path, headers, body)
        with self.server.lock:
            number = len(self.server.requests)
            self.server.requests.append(received)
        try:
            self.server.answer(self, received, number)
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do

    def json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        for name, one in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, one)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def problem(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        self.json({"status": status, "code": code, "detail": f"because of {code}", "requestId": "r1"}, status, headers)

    def empty(self, status: int = 204) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def stream(self, headers: dict[str, str] | None = None) -> None:
        """Begins an event stream. Its end is the end of the connection."""
        self.send_response(200)
        for name, value in {"content-type": "text/event-stream", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.write("retry: 1\n\n")

    def write(self, text: str) -> None:
        raw = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        self.wfile.flush()

    def event(self, number: int | None, name: str, data: Any) -> None:
        line = "" if number is None else f"id: {number}\n"
        self.write(f"event: {name}\n{line}data: {json.dumps(data)}\n\n")

    def end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def reset(self) -> None:
        """Ends the connection as the death of a machine would."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def until_closed(self) -> None:
        """Waits until the client has gone."""
        self.connection.settimeout(30)
        try:
            self.connection.recv(1)
        except OSError:
            pass


Answer = Callable[[Exchange, Received, int], None]


class Script(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.answer = answer
        self.requests: list[Received] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


def serve(test: unittest.TestCase, answer: Answer) -> Script:
    """A server for one test."""
    script = Script(answer)
    thread = threading.Thread(target=script.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()

    def close() -> None:
        script.shutdown()
        script.server_close()

    test.addCleanup(close)
    return script


RUN = {"x-run-id": "run_1", "x-thread-id": "thr_1"}
USAGE = {"inputTokens": 1, "outputTokens": 1}

#: The events of a short run, with their numbers.
EVENTS: list[tuple[int, str, dict[str, Any]]] = [
    (1, "message:user", {"messageId": "msg_1", "parentId": None, "text": "Hi"}),
    (2, "run:start", {"runId": "run_1", "threadId": "thr_1", "messageId": "msg_1", "model": "m", "appRevision": "r"}),
    (3, "step:start", {"step": 1, "model": "m"}),
    (4, "text:delta", {"step": 1, "delta": "Hel"}),
    (5, "text:delta", {"step": 1, "delta": "lo."}),
    (6, "step:end", {"step": 1, "text": "Hello.", "calls": [], "usage": USAGE, "finish": "stop"}),
    (7, "stream:complete", {"messageId": "msg_2", "text": "Hello.", "memoriesReferenced": [], "usage": USAGE}),
    (8, "run:end", {"runId": "run_1", "status": "completed"}),
]
