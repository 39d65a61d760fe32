"""A directory whose lines go through the whole chain: silver, a gold table whose declaration changes, and a sink."""

import json
import pickle
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import pytest
import yaml

from oncelake.exactly_once import upkeep
from tests.chaos.bronze import rows_of
from tests.chaos.ruled import FORMAT
from tests.chaos.steps import Step
from tests.chaos.world import Directory, record_format
from tests.support.house import House, error_log_conf
from tests.support.sinks import ByKey

GOLD = "lines"
# In whose batches the steps of a command happen, by the number that `watch` is given.
STAGES = ("bronze", "silver", f"gold.{GOLD}", f"serving.{GOLD}")
# Who commits a batch, by the number that `writer` is given: Spark, or delta-rs, which gets collected rows or files.
_WRITERS = ("0", "32MB", "1")

Counts = dict[tuple[Any, ...], tuple[Any, ...]]


@dataclass(frozen=True)
class Declared:
    """A declaration of the gold table, and the same in Python.

    Attributes:
        text: the declaration.
        seconds: the length of its windows.
        counts: whether it counts a line with this message.
        keys: returns the keys of a message.
        measured: returns the measures of a window's lines, each a time and a message.
    """

    text: Mapping[str, Any]
    seconds: int
    counts: Callable[[str], bool]
    keys: Callable[[str], tuple[Any, ...]]
    measured: Callable[[list[tuple[datetime, str]]], tuple[Any, ...]]

    @property
    def columns(self) -> list[str]:
        """Return the names of the table's columns."""
        return ["log_time", *self.text.get("by", {}), *self.text["measures"]]

    def by_key(self, rows: list[tuple[Any, ...]]) -> Counts:
        """Return rows by window and keys."""
        keys = 1 + len(self.text.get("by", {}))
        found = {tuple(map(_plain, row[:keys])): tuple(map(_plain, row[keys:])) for row in rows}
        assert len(found) == len(rows), f"two rows have one key: {rows}"
        return found

    def expected(self, silver: list[dict[str, Any]]) -> Counts:
        """Return the rows that the table must have for these rows of silver, by window and keys."""
        groups: dict[tuple[Any, ...], list[tuple[datetime, str]]] = {}
        for row in silver:
            at, message = row["log_time"].replace(tzinfo=UTC), row["message"]
            if self.counts(message):
                start = datetime.fromtimestamp(at.timestamp() // self.seconds * self.seconds, UTC)
                groups.setdefault((start, *self.keys(message)), []).append((at, message))
        return {key: self.measured(lines) for key, lines in groups.items()}


# By the number that `declare` is given.
DECLARATIONS = (
    Declared(
        {"every": "5 seconds", "measures": {"lines": "count", "newest": "max(log_time)"}},
        5,
        lambda _: True,
        lambda _: (),
        lambda lines: (len(lines), max(lines)[0]),
    ),
    Declared(
        {
            "where": "startswith(message, '.')",
            "every": "4 seconds",
            "by": {"length": "length(message)"},
            "measures": {"lines": "count", "characters": "sum(length(message))"},
        },
        4,
        lambda message: message.startswith("."),
        lambda message: (len(message),),
        lambda lines: (len(lines), sum(len(message) for _, message in lines)),
    ),
    Declared(
        {"every": "1 minute", "measures": {"lines": "count", "first": "min(message)"}},
        60,
        lambda _: True,
        lambda _: (),
        lambda lines: (len(lines), min(message for _, message in lines)),
    ),
)


@dataclass
class Whole(Directory):
    """A directory, and the settings of the chain behind it.

    Attributes:
        directory: the directory of the sequence.
        declared: the number of the gold table's declaration.
        writer: the number of the writer.
    """

    directory: Path = field(kw_only=True)
    stage: str = STAGES[0]
    layers: tuple[str, ...] = ("bronze", "silver", "gold", "serving")
    declared: int = 0
    writer: int = 1
    _patch: pytest.MonkeyPatch = field(default_factory=pytest.MonkeyPatch)

    @property
    def sets(self) -> list[str]:
        """Return settings by which most files are batches of their own."""
        return ["source.max_bytes_per_batch=40", "source.renamed=read"]

    def house(self, directory: Path) -> House:
        """Return a lake with this chain, whose tables are kept up after every third commit."""
        self._write_settings()
        for name, value in (("EVERY", 3), ("FEW", 2), ("COPIED", 1), ("GROUP", 1)):
            self._patch.setattr(upkeep, name, value)
        return House(directory, self._conf, sets=self.sets)

    def remove(self) -> None:
        """Let tables be kept up as seldom as before."""
        self._patch.undo()

    def apply(self, step: Step) -> bool:
        """Apply an operation to the directory, or a change to the settings or to the stage that is watched."""
        number = step.numbers[0] if step.numbers else 0
        if step.verb == "watch":
            self.stage = STAGES[number]
        elif step.verb == "declare":
            self.declared = number
        elif step.verb == "writer":
            self.writer = number
        else:
            return super().apply(step)
        self._write_settings()
        return True

    def may_run(self, table: Path) -> bool:
        """Return whether the gold table was built by the declaration in the settings."""
        return self._built(table) in (None, self.declared)

    @contextmanager
    def as_built(self, table: Path) -> Iterator[None]:
        """Have the settings and the first layers of a run that goes on while gold is built by another declaration.

        Its own gold stage is left out: it has the name of the query that builds the new table, in the same session.
        """
        before, built = (self.declared, self.stage, self.layers), self._built(table)
        self.declared = self.declared if built is None else built
        self.stage, self.layers = STAGES[0], self.layers[:2]
        self._write_settings()
        try:
            yield
        finally:
            self.declared, self.stage, self.layers = before
            self._write_settings()

    def counted(self, table: Path, version: int | None = None) -> Counts:
        """Return the rows of the gold table, by window and keys; at a version, or the newest ones."""
        built = self._built(table)
        if built is None:
            return {}
        rows = rows_of(_gold(table), DECLARATIONS[built].columns, version)
        return DECLARATIONS[built].by_key([tuple(row.values()) for row in rows])

    def took_over(self, table: Path, before: Counts) -> Iterator[str]:
        """Yield what is wrong with the gold table after a change that did not end well: it is neither old nor new."""
        there = self.counted(table)
        if there not in (before, self._wanted(table)):
            yield f"a change that was cut off left {there}, neither what was there, {before}, nor {self._wanted(table)}"

    def wrong(self, table: Path, *, whole: bool) -> Iterator[str]:
        """Yield what is wrong with gold, and with the served table after a run that ended well."""
        there, wanted = self.counted(table), self._wanted(table)
        more = [key for key, row in there.items() if key not in wanted or row[0] > wanted[key][0]]
        if more:
            yield f"gold counts more than silver has: {more[0]}: {there[more[0]]}, not {wanted.get(more[0])}"
        if not whole:
            return
        yield from self.wrong_after_gold(table)
        silver = table.parent.parent / "silver"
        after = [len(rows_of(silver / name, ["offset"])) for name in ("access_log", "quarantine")]
        if len(rows_of(table, ["offset"])) != sum(after):
            yield f"bronze has {len(rows_of(table, ['offset']))} rows, silver and quarantine have {after}"

    def wrong_after_gold(self, table: Path) -> Iterator[str]:
        """Yield what is wrong with gold and the served table after a command that brought both up to silver."""
        there, wanted = self.counted(table), self._wanted(table)
        if self._built(table) not in (None, self.declared):
            yield "the command ended well, and gold was built by another declaration"
        if there != wanted:
            yield f"gold has {there}, not {wanted}"
        served = self._served(self._built(table))
        if served != there:
            yield f"served are {served}, not {there}"

    def wrong_if_proven(self, table: Path) -> Iterator[str]:
        """Yield where gold and the served table are not what silver and gold hold up to their positions."""
        gold, built = _gold(table), self._built(table)
        silver = table.parent.parent / "silver" / "access_log"
        end = _end(_last_batch(gold), silver) if built is not None else None
        if end is not None:
            assert built is not None
            wanted = DECLARATIONS[built].expected(_silver(table, end - 1))
            if self.counted(table) != wanted:
                yield f"gold has {self.counted(table)}, not {wanted}, as silver before version {end}"
        end = _end(self._stored(), gold)
        if end is not None and built is not None:
            there = self.counted(table, end - 1)
            if self._served(built) != there:
                yield f"served are {self._served(built)}, not {there}, as gold before version {end}"

    @property
    def _conf(self) -> Path:
        return self.directory / "conf" / "local.yaml"

    def _write_settings(self) -> None:
        self._conf.parent.mkdir(exist_ok=True)
        conf = error_log_conf()
        conf["source"] = {**conf.get("source", {}), "format": record_format(self.place, FORMAT)}
        conf["run"] = {**conf.get("run", {}), "max_bytes_per_batch": 1, "small_batch": _WRITERS[self.writer]}
        conf["gold"] = {GOLD: dict(DECLARATIONS[self.declared].text)}
        sink = f"{ByKey.__module__}:{ByKey.__name__}"
        conf["serving"] = {"sink": sink, "options": {"file": str(self._file)}, "tables": [GOLD]}
        partial = self._conf.with_name("partial")
        partial.write_text(yaml.safe_dump(conf, sort_keys=False))
        partial.replace(self._conf)

    @property
    def _file(self) -> Path:
        return self.directory / "served.db"

    def _built(self, table: Path) -> int | None:
        """Return the number of the declaration by which the gold table was built; None without a table."""
        if not (_gold(table) / "_delta_log").exists():
            return None
        text = deltalake.DeltaTable(_gold(table)).metadata().configuration["oncelake.declaration"]
        columns = ["log_time", *json.loads(text).get("by", {}), *json.loads(text)["measures"]]
        (number,) = (number for number, each in enumerate(DECLARATIONS) if each.columns == columns)
        return number

    def _wanted(self, table: Path) -> Counts:
        built = self._built(table)
        return {} if built is None else DECLARATIONS[built].expected(_silver(table))

    def _served(self, built: int | None) -> Counts:
        """Return the rows in the sink; a table with keys has the hash of its key in front."""
        if built is None:
            return {}
        keyed = int(bool(DECLARATIONS[built].text.get("by")))
        return DECLARATIONS[built].by_key(
            [pickle.loads(row)[keyed:] for (row,) in self._in_sink(f"row FROM held_{GOLD} WHERE row IS NOT NULL")]
        )

    def _stored(self) -> str:
        """Return the position after the last batch that the sink stores; nothing without one, or after a rebuild."""
        batches = [json.loads(text) for (text,) in self._in_sink(f"batch FROM position_{GOLD}")]
        return str(batches[0]["after"]) if batches else ""

    def _in_sink(self, what: str) -> list[tuple[Any, ...]]:
        if not self._file.exists():
            return []
        with closing(sqlite3.connect(self._file)) as connection:
            return connection.execute(f"SELECT {what}").fetchall()


def _gold(table: Path) -> Path:
    return table.parent.parent / "gold" / GOLD


def _silver(table: Path, version: int | None = None) -> list[dict[str, Any]]:
    return rows_of(table.parent.parent / "silver" / "access_log", ["log_time", "message"], version)


def _last_batch(gold: Path) -> str:
    """Return the position after the newest batch that a table's log has."""
    for commit in sorted((gold / "_delta_log").glob("*.json"), reverse=True):
        for line in commit.read_text().splitlines():
            metadata = json.loads(json.loads(line).get("commitInfo", {}).get("userMetadata") or "{}")
            if "after" in metadata:
                return str(metadata["after"].splitlines()[-1])
    return ""


def _end(position: str, table: Path) -> int | None:
    """Return the version of a table that a position is before; None if it is within one."""
    found = json.loads(position or "{}")
    if not found or found["isStartingVersion"]:
        return None
    version, index = int(found["reservoirVersion"]), int(found["index"])
    if index == -1:
        return version
    commit = (table / "_delta_log" / f"{version:020}.json").read_text()
    return version + 1 if sum('"cdc"' in line[:6] for line in commit.splitlines()) == index + 1 else None


def _plain(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
