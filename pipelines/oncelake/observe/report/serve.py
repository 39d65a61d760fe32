"""HTTP server of the page, for this machine only.

A website open in a browser on this machine can send requests here, through a host name that it points to 127.0.0.1
(DNS rebinding). So a request is refused unless its Host header names this address.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from urllib.parse import parse_qs, urlsplit

from oncelake.common.errors import ConfigError
from oncelake.observe.report.contents import verdict
from oncelake.observe.report.facts import Facts
from oncelake.observe.report.figures import figures
from oncelake.observe.report.page import page, parts

HOST = "127.0.0.1"
# The page before the first look at the lake; it reloads itself every second.
_SOON = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="1">'
    '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,"><title>oncelake</title>'
    '<body style="font-family: system-ui; padding: 15vh 10vw"><p>Reading the lake …</p></body></html>'
)


class Shown:
    """The newest facts, and the number of the look that collected them; no facts before the first look."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._facts: Facts | None = None
        self._number = 0

    def put(self, facts: Facts) -> None:
        """Replace the facts that are served."""
        with self._lock:
            self._facts, self._number = facts, self._number + 1

    def page(self) -> bytes:
        """Return the page."""
        with self._lock:
            facts, number = self._facts, self._number
        return (page(facts, number) if facts else _SOON).encode()

    def news(self, after: str) -> bytes:
        """Return the update since a look as JSON; empty if there is no newer look."""
        with self._lock:
            facts, number = self._facts, self._number
        if facts is None or after == str(number):
            return b""
        title = f"oncelake: {verdict(facts).headline}"
        update = {"number": number, "at_ms": facts.at_ms, "title": title, "parts": parts(facts)}
        return json.dumps({**update, "figures": figures(facts)}).encode()


@contextmanager
def serving(port: int) -> Iterator[tuple[Shown, str]]:
    """Serve a page in its own thread.

    Yields:
        The object that receives the facts to show, and the URL.

    Raises:
        ConfigError: the port is in use, or may not be used.
    """
    shown = Shown()
    try:
        server = _Http((HOST, port), shown)
    except OSError as error:
        raise ConfigError(f"--port {port} of {HOST} cannot be used: {error.strerror}; choose another port") from None
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    try:
        yield shown, f"http://{HOST}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_port = False

    def __init__(self, address: tuple[str, int], shown: Shown) -> None:
        self.shown = shown
        super().__init__(address, _Answer)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors: a browser may close the connection in the middle of a response."""


class _Answer(BaseHTTPRequestHandler):
    server: _Http
    server_version = "oncelake"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        """Respond with the page, or with an update of it."""
        port = self.server.server_address[1]
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            self._send(HTTPStatus.FORBIDDEN, f"open http://{HOST}:{port}/\n".encode(), "text/plain")
            return
        url = urlsplit(self.path)
        if url.path == "/":
            self._send(HTTPStatus.OK, self.server.shown.page(), "text/html; charset=utf-8")
        elif url.path == "/update":
            news = self.server.shown.news(parse_qs(url.query).get("after", [""])[0])
            self._send(HTTPStatus.OK if news else HTTPStatus.NO_CONTENT, news, "application/json")
        else:
            self._send(HTTPStatus.NOT_FOUND, b"not found: open /\n", "text/plain")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
        headers |= {"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer"}
        for name, value in {**headers, "Cross-Origin-Resource-Policy": "same-origin"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Do not log requests."""
