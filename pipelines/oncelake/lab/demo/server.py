"""Helpers to start a server on this machine: find a free port, write its settings, wait until it answers."""

import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from tenacity import RetryError, Retrying, stop_after_delay, wait_fixed

from oncelake.common.errors import OncelakeError

# How many seconds a server may take to answer on a busy machine.
PATIENCE = 60.0


def free_port() -> int:
    """Return a port that is free at the moment of the call."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_properties(path: Path, settings: Mapping[str, str]) -> Path:
    """Write a server's settings to a Java properties file, and return its path."""
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


def wait_until_it_answers(
    process: subprocess.Popen[bytes], request: Callable[[], object], output: Callable[[], str]
) -> None:
    """Wait until a server answers.

    Args:
        process: the server's process.
        request: a function that raises while the server does not answer.
        output: returns the server's output.

    Raises:
        OncelakeError: the server exited or did not answer in time; the message has its output.
    """
    late = stop_after_delay(PATIENCE)
    try:
        Retrying(stop=lambda state: process.poll() is not None or late(state), wait=wait_fixed(0.1))(request)
    except RetryError as error:
        raise OncelakeError(f"the server did not start: {output()}") from error
