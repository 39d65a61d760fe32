"""Run a proxy between a client and its server, which cuts a connection at a chosen statement."""

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

# a statement never reaches the server; its answer never reaches the client; half of its answer does
How = Literal["before", "lost", "torn"]


@dataclass
class _Link:
    """The connection of one client and the matching one to the server."""

    client: socket.socket
    server: socket.socket
    ending: How | None = None

    def close(self) -> None:
        for each in (self.client, self.server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


class Proxy:
    """Forwards bytes in both directions; after `lose` or `cut`, ends connections at what their clients send.

    Attributes:
        lost: how many connections were cut.
    """

    def __init__(self, port: int) -> None:
        self._server = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._to_lose = 0
        self._to_pass: int | None = None
        self._how: How = "lost"
        self._links: list[_Link] = []
        self.lost = 0
        self.port = int(self._listening.getsockname()[1])

    def lose(self, answers: int) -> None:
        """Lose the answers to this many further COMMITs."""
        self._to_lose = answers

    def cut(self, after: int, how: How) -> None:
        """Cut once, after this many messages; a new connection counts as one, for its greeting."""
        self._to_pass, self._how = after, how

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()
        for link in self._links:
            link.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                link = _Link(client, socket.create_connection(("127.0.0.1", self._server)))
                for each in (link.client, link.server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._links.append(link)
                link.ending = self._due(b"")
                if link.ending == "before":
                    link.close()
                    continue
                threading.Thread(target=self._ask, args=(link,), daemon=True).start()
                threading.Thread(target=self._answer, args=(link,), daemon=True).start()

    def _due(self, data: bytes) -> How | None:
        """Return how the connection is cut at this message of a client; None if it passes."""
        if self._to_lose and b"COMMIT" in data:
            self._to_lose -= 1
            self.lost += 1
            return "lost"
        if self._to_pass is None:
            return None
        self._to_pass -= 1
        if self._to_pass >= 0:
            return None
        self._to_pass = None
        self.lost += 1
        return self._how

    def _ask(self, link: _Link) -> None:
        with suppress(OSError):
            while data := link.client.recv(65536):
                link.ending = link.ending or self._due(data)
                if link.ending == "before":
                    break
                if link.ending == "lost":
                    link.client.shutdown(socket.SHUT_RDWR)  # the client gets no more data, and the server commits
                link.server.sendall(data)
                if link.ending:
                    return
        link.close()

    def _answer(self, link: _Link) -> None:
        with suppress(OSError):
            while data := link.server.recv(65536):
                if link.ending == "torn":
                    link.client.sendall(data[: len(data) // 2])
                if link.ending:
                    break
                link.client.sendall(data)
        link.close()
