"""A proxy between a client and its server, which can lose the answer to a COMMIT."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class Proxy:
    """Passes bytes on both ways; after `lose`, ends the next connections when they have sent a COMMIT.

    Attributes:
        lost: how many answers were lost.
    """

    def __init__(self, port: int) -> None:
        self._server = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._to_lose = 0
        self.lost = 0
        self.port = int(self._listening.getsockname()[1])

    def lose(self, answers: int) -> None:
        """Lose the answers to so many further COMMITs."""
        self._to_lose = answers

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, watched: bool) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                if watched and self._to_lose and b"COMMIT" in data:
                    self._to_lose -= 1
                    self.lost += 1
                    one.shutdown(socket.SHUT_RDWR)  # the client hears nothing more
                    other.sendall(data)  # and the server commits
                    other.recv(65536)
                    break
                other.sendall(data)
        for each in (one, other):
            with suppress(OSError):
                each.close()
