"""Two sources of one lake for operations: a directory of complete files and a tailed one. Each comes and goes."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.chaos.bronze import BronzeFiles, rows_of
from tests.chaos.directory import Listing
from tests.chaos.growing import Logs
from tests.chaos.operations import Place
from tests.chaos.steps import Step
from tests.chaos.world import Directory, World
from tests.support.house import House
from tests.support.several import Several

FILES, TAIL = "access_log", "tail"
# Settings for small batches of each source, beside its directory.
_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    FILES: {"max_bytes_per_batch": 200, "renamed": "read"},
    TAIL: {"kind": "tail", "max_bytes_per_batch": 700, "rotation": "copytruncate"},
}
_STAGES = {FILES: "bronze", TAIL: f"bronze.{TAIL}"}


@dataclass(frozen=True)
class Both(Listing):
    """The sources that are in the settings at one moment.

    Attributes:
        each: the listing of each, by name.
    """

    each: Mapping[str, Listing] = field(default_factory=dict, compare=False)


@dataclass
class Sources(World):
    """Two sources. The first part of a name is the source's; a source that is not in the settings has no parts.

    Attributes:
        lake: the lake.
        each: the sources, by name.
        declared: the names of those that are in the settings.
        left_out: those that were not when silver was rebuilt with --accept-loss, so that it has none of their lines.
    """

    lake: Several
    each: Mapping[str, Directory | Logs]
    declared: list[str] = field(default_factory=lambda: [FILES, TAIL])
    left_out: set[str] = field(default_factory=set)
    layers: tuple[str, ...] = ("bronze", "silver")

    @classmethod
    def below(cls, directory: Path) -> "Sources":
        """Create both sources below a directory, and a lake that reads them."""
        lake = Several.at(directory, FILES, TAIL)
        places = [Place(bytes(lake.logs / name), bytes(directory / "aside" / name)) for name in (FILES, TAIL)]
        for place in places:
            Path(place.aside.decode()).mkdir(parents=True)
        sources = cls(lake, {FILES: Directory(places[0]), TAIL: Logs(places[1])})
        sources.declare()
        return sources

    @property
    def stage(self) -> str:  # type: ignore[override]
        """Return the stage in whose batches the steps of a run happen: the tailed source's, if it is there."""
        return _STAGES[TAIL if TAIL in self.declared else FILES]

    @property
    def sets(self) -> list[str]:
        """Return none: the sources are in the configuration file."""
        return []

    def house(self, directory: Path) -> House:
        """Return the lake."""
        assert directory == self.lake.root
        return self.lake

    def declare(self) -> None:
        """Write the settings."""
        self.lake.declare(**{name: {"path": str(self.lake.logs / name), **_SETTINGS[name]} for name in self.declared})

    def apply(self, step: Step) -> bool:
        """Apply an operation to the source that its names begin with, or to the settings."""
        if step.verb in ("remove", "return"):
            return self._change(step.verb, (FILES, TAIL)[step.numbers[0] % 2])
        name = step.names[0].split(b"/", 1)[0].decode()
        return self.each[name].apply(replace(step, names=tuple(each.split(b"/", 1)[1] for each in step.names)))

    def look(self) -> Listing:
        """Return the parts of the sources that are in the settings."""
        listings = {name: self.each[name].look() for name in self.declared}
        return Both(
            {_called(name, part): content for name, each in listings.items() for part, content in each.files.items()},
            tuple(_called(name, part) for name, each in listings.items() for part in each.loops),
            tuple(_called(name, part) for name, each in listings.items() for part in (*each.strange, *_bare(each))),
            any(each.empty and self._has_read(name) for name, each in listings.items()),
            listings,
        )

    def refused(self) -> Collection[int]:
        """Return the inodes of the files that the product may not open."""
        return {inode for each in self.each.values() for inode in each.refused()}

    def held(self, table: Path) -> Mapping[bytes, BronzeFiles]:
        """Return what the bronze tables hold."""
        found = {name: each.held(table.parent / name) for name, each in self.each.items()}
        return {_called(name, part): held for name, each in found.items() for part, held in each.items()}

    def accepted(self, table: Path) -> list[bytes]:
        """Return the parts that are lost by consent."""
        found = {name: each.accepted(table.parent / name) for name, each in self.each.items()}
        return [_called(name, part) for name, each in found.items() for part in each]

    def lost(self, bronze: Mapping[bytes, BronzeFiles]) -> Iterator[bytes]:
        """Yield the lines that a batch had planned to read, and that are in no file."""
        for name in self.declared:
            start = _called(name, b"")
            mine = {part.removeprefix(start): held for part, held in bronze.items() if part.startswith(start)}
            for part in self.each[name].lost(mine):
                yield _called(name, part)

    def names(self, said: str, part: bytes) -> bool:
        """Return whether a text names a part."""
        name, rest = part.split(b"/", 1)
        return self.each[name.decode()].names(said, rest)

    def owed(self, seen: Sequence[Listing]) -> Iterator[bytes]:
        """Yield the parts that a run must read if it ends well."""
        for name in self.declared:
            yield from (_called(name, part) for part in self.each[name].owed([_part_of(name, each) for each in seen]))

    def planned(self, checkpoint: Path) -> None:
        """Record what the batch that has just been planned is to read."""
        self.each[self._watched].planned(checkpoint)

    def forgotten(self) -> None:
        """Record that nothing says any more what was planned."""
        self.each[self._watched].forgotten()

    def emptied(self, *, accepted: bool) -> None:
        """Record that the bronze tables were emptied and begin with the current sources."""
        for name in self.declared:
            self.each[name].emptied(accepted=accepted)
        self.left_out = self.each.keys() - set(self.declared) if accepted else set()

    def wrong(self, table: Path, *, whole: bool) -> Iterator[str]:
        """Yield the sources with another number of lines in silver and quarantine than in bronze."""
        for name, each in self.each.items():
            yield from each.wrong(table.parent / name, whole=whole)
        if not whole:
            return
        lake = table.parent.parent
        silver = Counter(row["source"] for each in ("access_log", "quarantine") for row in _silver(lake, each))
        for name in self.each:
            rows = len(rows_of(table.parent / name, ["value"]))
            if rows != silver[name] and (name not in self.left_out or silver[name]):
                yield f"bronze holds {rows} rows of {name}, silver and quarantine hold {silver[name]}"

    @property
    def _watched(self) -> str:
        return TAIL if TAIL in self.declared else FILES

    def _change(self, verb: str, name: str) -> bool:
        if (verb == "remove") != (name in self.declared) or self.declared == [name]:
            return False
        if verb == "remove":
            self.declared.remove(name)
        else:
            self.declared.append(name)
            self.left_out.discard(name)
        self.declare()
        return True

    def _has_read(self, name: str) -> bool:
        return bool(self.each[name].held(self.lake.table(f"bronze/{name}")))


def _called(name: str, part: bytes) -> bytes:
    return name.encode() + b"/" + part


def _bare(listing: Listing) -> tuple[bytes, ...]:
    """Return a name if a source has no line: a proof may ask whether the right directory is there."""
    return () if any(content.lines for content in listing.files.values()) else (b"no line",)


def _part_of(name: str, listing: Listing) -> Listing:
    assert isinstance(listing, Both)
    return listing.each[name]


def _silver(lake: Path, table: str) -> list[dict[str, object]]:
    return rows_of(lake / "silver" / table, ["source"])
