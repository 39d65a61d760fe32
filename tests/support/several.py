"""A lake with several sources of files, whose settings a test changes between its runs."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import yaml

from tests.support.house import House, error_log_conf


@dataclass
class Several(House):
    """A lake that reads a directory below `logs` for each of its sources.

    Attributes:
        sources: the declared sources, by name.
    """

    sources: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def at(cls, root: Path, *names: str) -> Self:
        """Create a lake with one gold table, and declare sources."""
        house = cls(root, root / "conf" / "local.yaml")
        house.conf.parent.mkdir()
        house.declare(*names)
        return house

    def declare(self, *names: str, **more: dict[str, Any]) -> None:
        """Declare the sources: a directory of its name for each name, and sections of the settings."""
        for name in names:
            (self.logs / name).mkdir(parents=True, exist_ok=True)
        self.sources = {**{name: {"path": str(self.logs / name)} for name in names}, **more}
        conf = {key: value for key, value in error_log_conf().items() if key != "source"}
        self.conf.write_text(yaml.safe_dump({**conf, "sources": self.sources}, sort_keys=False))

    def declare_one(self, name: str) -> None:
        """Declare one source, in the section `source`."""
        self.conf.write_text(yaml.safe_dump({**error_log_conf(), "source": {"path": str(self.logs / name)}}))

    @property
    def flags(self) -> list[str]:
        return [f"lake.root={self.lake}", *self.sets]

    @property
    def stages(self) -> tuple[str, ...]:
        return tuple(stage.name for stage in self.chain().stages)

    def counts(self, table: str = "silver/access_log") -> dict[str | None, int]:
        """Return the number of a table's rows of each source."""
        found: dict[str | None, int] = {}
        for row in self.rows(table):
            found[row["source"]] = found.get(row["source"], 0) + 1
        return found
