"""Run a command on a pseudo-terminal, as a person does."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


@dataclass
class Terminal:
    """A pseudo-terminal with a process, and all that it wrote."""

    process: subprocess.Popen[bytes]
    descriptor: int
    said: str = field(default="")

    @classmethod
    def start(
        cls,
        command: list[str],
        cwd: Path,
        size: tuple[int, int] = (80, 24),
        environment: Mapping[str, str] | None = None,
    ) -> "Terminal":
        """Start a command on a terminal of `size` columns and lines."""
        ours, theirs = pty.openpty()
        columns, lines = size
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        without = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES")}
        told = {**without, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **(environment or {})}
        process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=told, start_new_session=True
        )
        os.close(theirs)
        return cls(process, ours)

    def wait_for(self, happened: Callable[[str], bool], seconds: float = 60) -> None:
        """Read on until a condition on the output holds."""
        until = time.monotonic() + seconds
        while not happened(self.said):
            assert time.monotonic() < until, self.said[-4_000:]
            assert self._read() or self.process.poll() is None, self.said[-4_000:]

    def end(self, seconds: float = 60) -> int:
        """Read to the end and return the exit code."""
        until = time.monotonic() + seconds
        while self._read() or (self.process.poll() is None and time.monotonic() < until):
            pass
        os.close(self.descriptor)
        return self.process.wait(timeout=1)

    @property
    def frames(self) -> list[list[str]]:
        """Return the drawings, in order, without colours: each as its lines."""
        drawn = re.split(r"(?:\r?\x1b\[2K(?:\x1b\[1A)?)+", self.said)
        return [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", frame).replace("\r", "").split("\n") for frame in drawn]

    def _read(self) -> bool:
        ready = select.poll()  # select.select() refuses descriptors from 1,024 on
        ready.register(self.descriptor, select.POLLIN)
        if not ready.poll(200):
            return False
        try:
            data = os.read(self.descriptor, 65_536)
        except OSError:  # the other end is closed
            return False
        self.said += data.decode(errors="replace")
        return bool(data)
