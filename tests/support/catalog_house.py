"""A lake under test whose tables are in a catalog."""

from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.support.house import House, error_log_conf

LAYERS = ("bronze", "silver", "gold", "quality")


@dataclass
class CatalogHouse(House):
    """A lake whose tables are in the session catalog, in schemas of their own.

    Attributes:
        warehouse: the catalog's directory for the files of tables.
        prefix: the beginning of the schemas' names.
        lines: all lines that were written.
    """

    warehouse: Path = Path()
    prefix: str = ""
    lines: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        conf = error_log_conf()
        conf["lake"] = {"catalog": "spark_catalog"}
        conf["lake"]["schemas"] = {layer: f"{self.prefix}{layer}" for layer in LAYERS}
        conf["checkpoints"] = str(self.lake / "_checkpoints")
        self.conf = self.root / "conf.yaml"
        self.conf.write_text(yaml.safe_dump(conf))

    @property
    def flags(self) -> list[str]:
        return [f"source.path={self.logs}", *self.sets]

    def write(self, name: str, *lines: bytes) -> None:
        super().write(name, *lines)
        self.lines += lines

    def table(self, name: str) -> Path:
        layer, _, table = name.partition("/")
        return self.warehouse / f"{self.prefix}{layer}.db" / table
