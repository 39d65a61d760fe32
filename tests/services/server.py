"""What the servers that tests start have in common: a free port each, and a start that is waited for."""

import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path


def free_port() -> int:
    """Give a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_properties(path: Path, settings: Mapping[str, str]) -> Path:
    """Write a server's settings as a file of Java properties, and give its place."""
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


def wait_until_it_answers(
    process: subprocess.Popen[bytes], asked: Callable[[], object], said: Callable[[], str]
) -> None:
    """Wait until a server answers.

    Args:
        process: the server's.
        asked: raises while it does not answer.
        said: gives what the server has written.
    """
    until = time.monotonic() + 60
    while True:
        try:
            asked()
        except Exception:
            assert process.poll() is None, said()
            assert time.monotonic() < until, said()
            time.sleep(0.1)
        else:
            return
