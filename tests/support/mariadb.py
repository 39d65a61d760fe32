"""Start a real MariaDB for tests: Debian's server with its own data directory, on a free port of 127.0.0.1.

Each server has its own directory for temporary tables: a server that starts removes all that it finds there, and
the installation of another one then fails. A server that ends by itself is started again, as systemd does.
"""

import getpass
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pymysql
import pytest

from oncelake.lab.demo.server import free_port, wait_until_it_answers

PACKAGE = "mariadb-server"
# How often a server that ends by itself is started again.
_RESTARTS = 10


def _found(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


class MariaDB:
    """A server with a data directory; it is stopped by its process ID."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self.port = free_port()
        self.options = list(options)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        if not (_found("mariadbd") and _found("mariadb-install-db")):
            pytest.skip(f"needs a MariaDB server: install the package {PACKAGE}")
        (self.directory / "tmp").mkdir(parents=True, exist_ok=True)
        install = [str(_found("mariadb-install-db")), "--no-defaults", f"--datadir={self._data}", "--skip-test-db"]
        install += [f"--user={getpass.getuser()}", "--auth-root-authentication-method=normal"]
        install += [option for option in self.options if option.startswith("--innodb")]
        done = subprocess.run([*install, self._temporary], check=False, capture_output=True, text=True)
        assert done.returncode == 0, f"mariadb-install-db failed:\n{done.stdout}{done.stderr}"
        self.start()
        return self

    def start(self) -> None:
        """Start or restart the server, and wait until it answers."""
        command = [str(_found("mariadbd")), "--no-defaults", f"--datadir={self._data}", f"--port={self.port}"]
        command += ["--bind-address=127.0.0.1", f"--socket={self.directory / 's'}", f"--user={getpass.getuser()}"]
        command += [f"--pid-file={self.directory / 'pid'}", "--innodb-buffer-pool-size=64M", "--skip-name-resolve"]
        command += [self._temporary]
        process = self._process = self._started(command)
        wait_until_it_answers(process, lambda: self.sql("SELECT 1"), self._said)
        threading.Thread(target=self._watch, args=(process, command), daemon=True).start()

    def _watch(self, process: subprocess.Popen[bytes], command: list[str]) -> None:
        """Start the server again if it ends without `stop`, a few times."""
        for _ in range(_RESTARTS):
            process.wait()
            with self._lock:
                if self._process is not process:
                    return
                process = self._process = self._started(command)

    def _started(self, command: list[str]) -> subprocess.Popen[bytes]:
        with (self.directory / "log").open("a") as log:
            return subprocess.Popen([*command, *self.options], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop the server by its process ID."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)

    def sql(self, statement: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run one statement as root and return its rows."""
        connection = pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", database=database, autocommit=True, connect_timeout=5
        )
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def make_database(self, name: str, password: str = "canary-word", rights: str = "SELECT, INSERT, UPDATE") -> str:
        """Create a database with an owner and a user who may only write rows; return that user's URL."""
        self.sql(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        self.sql(f"CREATE USER '{name}'@'%' IDENTIFIED BY '{password}'")
        self.sql(f"GRANT {rights} ON {name}.* TO '{name}'@'%'")
        return f"mysql+pymysql://{name}:{password}@127.0.0.1:{self.port}/{name}"

    def owner_url(self, name: str) -> str:
        """Return the URL of a user with all privileges on a database."""
        return f"mysql+pymysql://root@127.0.0.1:{self.port}/{name}"

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _temporary(self) -> str:
        return f"--tmpdir={self.directory / 'tmp'}"

    def _said(self) -> str:
        return (self.directory / "log").read_text(errors="replace")[-4000:]
