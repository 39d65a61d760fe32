"""This is where each table and each checkpoint is."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse


@dataclass(frozen=True, order=True)
class Table:
    """One table of the lake, by layer and name."""

    layer: str
    name: str

    def __str__(self) -> str:
        return f"{self.layer}.{self.name}"


BRONZE = Table("bronze", "access_log")
SILVER = Table("silver", "access_log")
QUARANTINE = Table("silver", "quarantine")


@dataclass(frozen=True)
class Lake:
    """The places below one root: `<root>/<layer>/<name>` is a table, `<checkpoints>/<stage>` a checkpoint."""

    root: str
    checkpoints: str

    def path(self, table: Table) -> str:
        """Give the place of a table."""
        return f"{self.root}/{table.layer}/{table.name}"

    def checkpoint(self, stage: str) -> str:
        """Give the checkpoint directory of a stage: `bronze`, or `gold/error_log` for `gold.error_log`."""
        return f"{self.checkpoints}/{stage.replace('.', '/')}"


def place(text: str) -> str:
    """Spell a place one way: an absolute path when it is local, else the URL without a trailing slash."""
    if not is_local(text):
        return text.rstrip("/")
    parsed = urlparse(text)
    path = unquote(parsed.path) if parsed.scheme == "file" else text
    return str(Path(path).expanduser().absolute())


def is_local(text: str) -> bool:
    """Tell whether a place is on this machine's own file system."""
    return ("://" not in text and not text.startswith("file:/")) or urlparse(text).scheme == "file"
