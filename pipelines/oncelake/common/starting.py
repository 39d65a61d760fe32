"""This is where a terminal shows that something is being started which takes seconds and says nothing."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner


@contextmanager
def starting(what: str) -> Iterator[None]:
    """Show a line on the terminal that is gone when the work has ended; nothing where errors go elsewhere.

    It writes to a descriptor of its own, as a JVM that is being started has this process's two for a time.
    """
    if not sys.stderr.isatty():
        yield
        return
    with os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding=sys.stderr.encoding) as file:
        console = Console(file=file)
        if console.is_dumb_terminal:
            yield
            return
        ascii_only = console.options.ascii_only
        spinner = Spinner("line" if ascii_only else "dots", text=f"{what} {'...' if ascii_only else '…'}", style="dim")
        with Live(spinner, console=console, transient=True, redirect_stdout=False, redirect_stderr=False):
            yield
