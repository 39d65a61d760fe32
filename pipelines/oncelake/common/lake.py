"""This is where each table and each checkpoint is."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

_FILE_URL = re.compile(r"file:(?://[^/]*)?/", re.IGNORECASE)
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):/")


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
    """Where everything is: below one root, or the tables in a catalog and the rest in a directory.

    Attributes:
        root: `<root>/<layer>/<name>` is a table, where there is no catalog; what is kept beside the tables is here.
        checkpoints: `<checkpoints>/<stage>` is a checkpoint.
        catalog: the catalog that the tables are in, `<catalog>.<schema>.<name>`; None for tables below the root.
        schemas: the schema of each layer that is not named as the layer is.
    """

    root: str
    checkpoints: str
    catalog: str | None = None
    schemas: Mapping[str, str] = field(default_factory=dict)

    def at(self, table: Table) -> str:
        """Give the place of a table: its path, or its quoted name; `oncelake.common.tables` opens either."""
        if self.catalog is None:
            return f"{self.root}/{table.layer}/{table.name}"
        return ".".join(f"`{part}`" for part in (self.catalog, self.schemas.get(table.layer, table.layer), table.name))

    def checkpoint(self, stage: str) -> str:
        """Give the checkpoint directory of a stage: `bronze`, or `gold/error_log` for `gold.error_log`."""
        return f"{self.checkpoints}/{stage.replace('.', '/')}"


def place(text: str) -> str:
    """Spell a place one way: an absolute path without `..` when it is local, else the URL without a trailing slash.

    What `..` leaves out is left out by name, as Hadoop does it, also behind a link.
    """
    if not is_local(text):
        return text.rstrip("/")
    url = _FILE_URL.match(text)
    path = unquote(f"/{text[url.end() :]}") if url else text
    return os.path.normpath(Path(path).expanduser().absolute())


def is_local(text: str) -> bool:
    """Tell whether a place is on this machine's own file system."""
    scheme = _SCHEME.match(text)
    return scheme is None or scheme[1].lower() == "file"
