"""The command that traces a line, quoted so that a shell passes on exactly the line's bytes."""

import shlex

from oncelake.observe.report.versions import masked

# A longer command is not shown: nobody pastes it, and a page may shorten it.
LONGEST = 1_500


def trace_command(line: bytes) -> str | None:
    """Return `oncelake trace` with a line as `trace` accepts it; None if no command can hold it.

    A zero byte is in no argument, a long line is cut on the page, and the page removes the password of a URL.
    """
    command = f"oncelake trace {word(line)}"
    fits = len(command) <= LONGEST and b"\0" not in line
    return command if fits and masked(command) == command else None


def word(text: bytes) -> str:
    """Quote bytes for a shell; those that are no printable text as escapes of bash and zsh ($'…')."""
    decoded = text.decode("utf-8", "surrogateescape")
    return shlex.quote(decoded) if decoded.isprintable() else f"$'{''.join(map(_escaped, decoded))}'"


def _escaped(mark: str) -> str:
    if mark in "\\'":
        return f"\\{mark}"
    if mark.isprintable():
        return mark
    return "".join(f"\\x{byte:02x}" for byte in mark.encode("utf-8", "surrogateescape"))
