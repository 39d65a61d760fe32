"""This is where it is read which line `trace` is asked for: a Kafka position, or a file and a line's text."""

import os
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlparse

from oncelake.common.errors import ConfigError
from oncelake.common.models import shown

_POSITION = re.compile(r"([a-zA-Z0-9._-]{1,249})/(\d{1,10})/(\d{1,19})", re.ASCII)
_ACCEPTED = "topic/partition/offset, as alog/0/1234, or file:line, as 'app.log:2017-07-30 14:09:08 ERROR some message'"


@dataclass(frozen=True)
class Position:
    """A record of a Kafka topic."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True)
class FileLine:
    """A file's name or end of its path, a colon, and a line; as both may hold colons, bronze tells them apart."""

    text: str

    def lines_of(self, file: str) -> list[bytes]:
        """Give the lines that can be meant if the file is this one: what stands behind each colon that follows it.

        Args:
            file: the file's URI, as bronze has it.
        """
        names = _spellings(file)
        colons = [at for at, mark in enumerate(self.text) if mark == ":" and at]
        return [os.fsencode(self.text[at + 1 :]) for at in colons if _ends_one_of(names, self.text[:at])]

    def __str__(self) -> str:
        return shown(self.text)


Asked = Position | FileLine


def read_asked(text: str) -> Asked:
    """Read what a user asks for.

    Raises:
        ConfigError: it is neither of the two forms.
    """
    match = _POSITION.fullmatch(text)
    if match:
        position = Position(match[1], int(match[2]), int(match[3]))
        if position.partition < 2**31 and position.offset < 2**63:
            return position
    elif ":" in text[1:]:
        return FileLine(text)
    raise ConfigError(f"what to trace is {_ACCEPTED}; not {shown(text)}")


def _spellings(file: str) -> set[str]:
    """Give a file as its URI and as its path, with what is encoded in the URI also decoded."""
    parsed = urlparse(file)
    path = unquote(parsed.path)
    return {file, unquote(file), path} | ({f"file://{path}"} if parsed.scheme == "file" else set())


def _ends_one_of(names: set[str], end: str) -> bool:
    return any(name == end or name.endswith(f"/{end.removeprefix('/')}") for name in names)
