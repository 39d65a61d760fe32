"""Write to the terminal while a command works, also while this process's own streams are redirected."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def own_console() -> Iterator[Console | None]:
    """Yield a console on a separate descriptor of stderr; None if that is no terminal that can redraw a line."""
    if not sys.stderr.isatty():
        yield None
        return
    with os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding=sys.stderr.encoding) as file:
        console = Console(file=file)
        yield None if console.is_dumb_terminal else console
