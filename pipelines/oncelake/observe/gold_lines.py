"""The lines that a row of gold counts: from a number back to silver's rows, each with its origin."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common import tables
from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.lake import SILVER, Table
from oncelake.common.spark.valid_text import has_text, valid
from oncelake.common.table_rows import TableRows, Values, picked, plain_rows
from oncelake.common.wording import count_of, did_you_mean, listed, printable, shown
from oncelake.engine.chain import Chain
from oncelake.engine.preflight import built_by
from oncelake.exactly_once.positions import is_whole, version_of
from oncelake.gold.declaration import LOG_TIME, GoldTable
from oncelake.gold.expression import column
from oncelake.gold.groups import PlainGold
from oncelake.gold.transform import matching
from oncelake.quality.reasons import at_micros

if TYPE_CHECKING:
    import pyarrow

# The columns that name a line, in the order in which lines are shown.
_SHOWN = (LOG_TIME, "level", "message", "fields", "topic", "partition", "offset", "file", "ingested_at")
# The characters of a line that are shown.
_WIDEST = 2_000
_ORDER = (LOG_TIME, "topic", "partition", "offset", "file", "message")


@dataclass(frozen=True)
class GoldLines:
    """The lines behind the rows of one window of a gold table.

    Attributes:
        table: the table's name.
        window: the start of the window, UTC.
        rows: gold's rows of the window that have the keys, without hidden columns.
        lines: silver's rows that they count, at most as many as were asked for, in the order of their times.
        total: how many silver's rows are.
        counted: how many gold's rows count; None if no measure is a count.
    """

    table: str
    window: datetime
    rows: Sequence[Mapping[str, Any]]
    lines: Sequence[Mapping[str, Any]]
    total: int
    counted: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return the lines for JSON."""
        return {**asdict(self), "window": self.window.isoformat()}


@dataclass(frozen=True)
class GoldCell:
    """The rows of a gold table with one window and some keys.

    Attributes:
        chain: the declared chain.
        spark: returns the session; called if the table's declaration needs it, or delta-rs cannot read a table.
        name: the table's name, such as `gold.error_log`.
        at: a time in the window, UTC.
        keys: values of the table's keys, as text; None for no value. Keys that are left out may have any value.
    """

    chain: Chain
    spark: Callable[[], SparkSession]
    name: str
    at: datetime
    keys: Mapping[str, str | None]

    def lines(self, limit: int) -> GoldLines:
        """Return the lines behind the rows, as far as the table has read silver.

        Args:
            limit: the most lines that are returned; all are counted.

        Raises:
            ConfigError: there is no such table or key.
            OncelakeError: there is no such row, or the log no longer has the version of silver that the table has read.
        """
        declared, rows = self._declared(), TableRows(self.spark)
        window = declared.window.start(self.at)
        # one moment of gold: its rows, and how far it has read silver
        state = self.chain.commit_log(self.table).state()
        version, end = (state.last.version, state.end) if state.last is not None else (None, None)
        if not is_whole(end):
            raise OncelakeError(
                f"{self.table} has read a part of a version of {SILVER}, and more of it next; its lines cannot be told "
                "from the others now. Run: oncelake run --once"
            )
        text = f"SELECT * FROM {{rows}} t WHERE t.{LOG_TIME} = :window"
        gold = rows.query(text, self._place, version=version, window=window)
        gold = gold.select([LOG_TIME, *declared.by, *declared.measures])
        of_window = plain_rows(gold)
        mask = [all(_text(row[key]) == value for key, value in self.keys.items()) for row in of_window]
        if not any(mask):
            near = self._near(rows, version, window) if not of_window else ()
            raise OncelakeError(self._no_row(of_window, window, near))
        wanted = [row for row, is_wanted in zip(of_window, mask, strict=True) if is_wanted]
        counts = [measure.name for measure in declared.parsed if measure.function == "count"]
        counted = sum(row[counts[0]] for row in wanted) if counts else None
        lines, total = self._silver(declared, rows, picked(gold, mask), version_of(end) - 1, limit)
        return GoldLines(str(self.table), window, wanted, plain_rows(lines), total, counted)

    def _declared(self) -> GoldTable:
        names = [f"gold.{name}" for name in self.chain.settings.gold]
        if self.name not in names:
            close = did_you_mean(self.name, names)
            raise ConfigError(f"there is no gold table {shown(self.name)}; the tables are {', '.join(names)}{close}")
        if self.chain.commit_log(self.table).newest() is None:
            raise OncelakeError(f"{self.table} does not exist yet. Run: oncelake run")
        declared = built_by(self.chain, self.table.name)
        unknown = next((key for key in self.keys if key not in declared.by), None)
        if unknown is not None:
            known = f"its keys are {', '.join(declared.by)}" if declared.by else "it has none"
            known += did_you_mean(unknown, declared.by)
            raise ConfigError(f"{self.table} has no key {shown(unknown)}; {known}")
        return declared

    @property
    def table(self) -> Table:
        """The table."""
        return Table.named(self.name)

    @property
    def _place(self) -> str:
        return self.chain.lake.at(self.table)

    def _near(self, rows: TableRows, version: int | None, window: datetime) -> Sequence[datetime]:
        """Return the windows with rows that are next to a window: the one before it, and the one after it."""
        sides = ("max", "<"), ("min", ">")
        texts = (
            f"SELECT unix_micros({side}(t.{LOG_TIME})) AS at FROM {{rows}} t WHERE t.{LOG_TIME} {mark} :window"
            for side, mark in sides
        )
        at = {"rows": (self._place, version)}
        nearest = (rows.records(text, at, window=window)[0]["at"] for text in texts)
        return [at_micros(micros) for micros in nearest if micros is not None]

    def _no_row(self, of_window: Sequence[Mapping[str, Any]], window: datetime, near: Sequence[datetime]) -> str:
        sentence = f"{self.table} has no row in the window that begins at {_start(window)}"
        if not of_window:
            nearest = f"; the nearest with rows begin at {' and '.join(map(_start, near))}" if near else ""
            return f"{sentence}: no line was counted there{nearest}"
        others = listed([_keys(row, self.keys) for row in of_window], len(of_window))
        return f"{sentence} with {_keys(self.keys, self.keys)}; it has {others}"

    def _silver(
        self, declared: GoldTable, rows: TableRows, gold: "pyarrow.Table", read: int, limit: int
    ) -> tuple["pyarrow.Table", int]:
        """Return silver's rows that rows of gold count, cut to a number, and how many they are.

        Args:
            declared: the declaration of the gold table.
            rows: answers queries over the lake's tables.
            gold: the rows of gold, of one window.
            read: the last version of silver that the gold table has read.
            limit: the most rows that are returned.
        """
        log = self.chain.commit_log(SILVER)
        version = log.last_alike(read)
        if not log.holds(version):
            raise OncelakeError(f"{self.table} has read {SILVER} up to version {version}, which is gone from its log")
        at, begin = self.chain.lake.at(SILVER), at_micros(gold[LOG_TIME][0].value)
        end, plain = declared.window.end(begin), PlainGold.of(declared)
        if plain is None:
            silver = tables.read_version(self.spark(), at, version)
            return _by_spark(silver.where(F.col(LOG_TIME).between(begin, end)), declared, gold, limit)
        values: Values = {"begin": begin, "end": end}
        within = [f"t.{LOG_TIME} >= :begin AND t.{LOG_TIME} < :end", *plain.sql(self.keys, values)]
        rest = f"FROM {{rows}} t WHERE {' AND '.join(within)}"
        columns, order = (", ".join(f"t.{name}" for name in names) for names in (_SHOWN, _ORDER))
        text = f"SELECT {columns} {rest} ORDER BY {order} LIMIT {limit}"
        (counted,) = rows.records(f"SELECT count(*) AS lines {rest}", {"rows": (at, version)}, **values)
        return rows.query(text, at, version=version, **values), counted["lines"]


def _by_spark(silver: DataFrame, declared: GoldTable, gold: "pyarrow.Table", limit: int) -> tuple["pyarrow.Table", int]:
    """Return silver's rows whose window and keys are those of rows of gold, cut to a number, and how many they are."""
    rows = matching(silver, declared)
    types = rows.select(*(column(text).alias(name) for name, text in declared.by.items())).schema
    keys = {LOG_TIME: F.expr(declared.window.sql)}
    for name, text in declared.by.items():  # made valid, as gold's keys are
        keys[name] = valid(column(text), types[name].dataType) if has_text(types[name].dataType) else column(text)
    keyed = rows.withColumns({f"_of_{name}": key for name, key in keys.items()})
    renamed = gold.select(list(keys)).rename_columns([f"_gold_{name}" for name in keys])
    groups = silver.sparkSession.createDataFrame(renamed)
    same = reduce(Column.__and__, (F.col(f"_of_{name}").eqNullSafe(F.col(f"_gold_{name}")) for name in keys))
    shown_rows = keyed.join(F.broadcast(groups), same, "left_semi").select(*_SHOWN).persist()
    try:
        return shown_rows.orderBy(*_ORDER).limit(limit).toArrow(), shown_rows.count()
    finally:
        shown_rows.unpersist()


def _start(window: datetime) -> str:
    return f"{window:%Y-%m-%dT%H:%M:%SZ}"


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)


def _keys(row: Mapping[str, Any], names: Iterable[str]) -> str:
    return ", ".join(f"{name} = {'no value' if row[name] is None else shown(_text(row[name]) or '')}" for name in names)


def line_texts(counted: GoldLines) -> Iterator[str]:
    """Yield the rows and the lines as text for the terminal: control characters of a log line are escaped."""
    for row in counted.rows:
        yield f"{counted.table}: " + ", ".join(f"{name} {_shown(value)}" for name, value in row.items())
    for line in counted.lines:
        place = line["file"].rsplit("/", 1)[-1] if line["file"] else "{topic}/{partition}/{offset}".format(**line)
        fields = "".join(f" {name}={value}" for name, value in (line["fields"] or {}).items() if value is not None)
        text = f"{_shown(line[LOG_TIME])} {line['level']} {line['message']}{fields}"
        yield printable(f"{place}: {text}", _WIDEST)
    if counted.counted not in (None, counted.total):
        yield f"gold counts {counted.counted:,}, and silver has {counted.total:,}; to find out why: oncelake prove"
    more = counted.total - len(counted.lines)
    yield count_of(counted.total, "line") + (f", {more:,} of them not shown; to show more: --limit" if more else "")


def _shown(value: Any) -> str:
    text = _text(value)
    return "null" if text is None else printable(text.replace(".000000Z", "Z"))
