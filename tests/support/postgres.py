"""Start a real PostgreSQL for tests: Debian's server with its own data directory, on a free port of 127.0.0.1."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
import pytest

from oncelake.lab.demo.server import free_port, wait_until_it_answers

PACKAGE = "postgresql"
_BIN = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


class PostgreSQL:
    """A server with a data directory; it is stopped by its process ID. It refuses to run as root."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="oncelake-postgres-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if not _BIN:
            pytest.skip(f"needs a PostgreSQL server: install the package {PACKAGE}")
        if os.getuid() == 0:
            shutil.chown(self.directory, "postgres", "postgres")
        data = str(self.directory / "data")
        subprocess.run(
            [*self._command("initdb"), "-D", data, "-U", "root", "-A", "trust"], check=True, capture_output=True
        )
        serve = [*self._command("postgres"), "-D", data, "-p", str(self.port), "-c", "listen_addresses=127.0.0.1"]
        serve += ["-k", str(self.directory), "-c", "fsync=off"]
        log = self.directory / "log"
        with log.open("wb") as said:
            self._process = subprocess.Popen(serve, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        wait_until_it_answers(self._process, lambda: self.sql("SELECT 1"), lambda: log.read_text(errors="replace"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def sql(self, statement: str) -> None:
        """Run one statement."""
        with psycopg.connect(
            f"host=127.0.0.1 port={self.port} user=root dbname=postgres", autocommit=True
        ) as connection:
            connection.execute(statement.encode())

    def make_database(self, name: str) -> str:
        """Create a database and return its URL."""
        self.sql(f"CREATE DATABASE {name}")
        return f"postgresql://root@127.0.0.1:{self.port}/{name}"

    def _command(self, name: str) -> list[str]:
        program = str(_BIN[-1] / name)
        if os.getuid() != 0:
            return [program]
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", program]
