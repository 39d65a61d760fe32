"""Receive the messages of alerts on this machine: a web server and a mail server."""

import json
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Web:
    """A web server that keeps what is posted to it.

    Attributes:
        got: the messages that it accepted.
        keys: their values of the header Idempotency-Key.
        answers: the codes of the next answers; afterwards it accepts everything.
        slow: seconds before each answer.
        asked: how many requests it had.
    """

    port: int = 0
    got: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    slow: float = 0.0
    asked: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook/secret-b7c2"

    def accept(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        self.asked += 1
        time.sleep(self.slow)
        code = self.answers.pop(0) if self.answers else 202
        if code < 300:
            self.got.append(json.loads(body))
            self.keys.append(handler.headers["Idempotency-Key"])
        handler.send_response(code)
        handler.send_header("Location", self.url)
        handler.end_headers()


@contextmanager
def web(port: int = 0) -> Iterator[Web]:
    """Run a web server on a free port, or on a given one."""
    kept = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kept.accept(self)

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    kept.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Mail:
    """A mail server that keeps what is sent to it.

    Attributes:
        refuses: the code of its answer to each recipient; None to accept them.
    """

    port: int = 0
    got: list[EmailMessage] = field(default_factory=list)
    refuses: int | None = None

    def talk(self, handler: socketserver.StreamRequestHandler) -> None:
        handler.wfile.write(b"220 here\r\n")
        while line := handler.rfile.readline():
            word = line.split()[0].upper() if line.split() else b""
            answer = b"250 ok"
            if word == b"RCPT" and self.refuses:
                answer = f"{self.refuses} no".encode()
            elif word == b"DATA":
                handler.wfile.write(b"354 go on\r\n")
                text = b""
                while not text.endswith(b"\r\n.\r\n"):
                    text += handler.rfile.readline()
                self.got.append(message_from_bytes(text[:-3], policy=policy.default))
            elif word == b"QUIT":
                answer = b"221 bye"
            handler.wfile.write(answer + b"\r\n")


@contextmanager
def mail() -> Iterator[Mail]:
    """Run a mail server on a free port."""
    kept = Mail()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            kept.talk(self)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        kept.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield kept
        server.shutdown()
