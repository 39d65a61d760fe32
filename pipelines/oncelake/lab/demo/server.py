"""This is where it is said how a server is started on this machine: on a free port, and waited for."""

import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from tenacity import RetryError, Retrying, stop_after_delay, wait_fixed

from oncelake.common.errors import OncelakeError

# How many seconds a server may take until it answers, on a machine that is busy.
PATIENCE = 60.0


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

    Raises:
        OncelakeError: it ended, or did not answer in time; says what it has written.
    """
    late = stop_after_delay(PATIENCE)
    try:
        Retrying(stop=lambda state: process.poll() is not None or late(state), wait=wait_fixed(0.1))(asked)
    except RetryError as error:
        raise OncelakeError(f"a server did not start: {said()}") from error
