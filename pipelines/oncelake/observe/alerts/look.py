"""Read from the lake what an alert's condition compares."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as F

from oncelake.common import tables
from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.lake import QUARANTINE, SILVER, Table
from oncelake.common.wording import ago, count_of, duration, printable, share, utc
from oncelake.engine.alerts import Condition
from oncelake.engine.chain import Chain, named
from oncelake.engine.graph import Stage
from oncelake.engine.preflight import built_by
from oncelake.exactly_once.files import Files
from oncelake.gold.declaration import LOG_TIME, quoted
from oncelake.observe.status import backlog, backlog_words

_COMPARE: dict[str, Callable[[Column, float], Column]] = {
    ">": lambda value, limit: value > limit,
    ">=": lambda value, limit: value >= limit,
    "<": lambda value, limit: value < limit,
    "<=": lambda value, limit: value <= limit,
}
# A window alerts as soon as gold has such a measure's value; of all others, when the window is over.
_LASTING = ("count", "count where", "sum", "min", "max", "approx_distinct")
# The file below `_alerts` with the result of the last proof.
PROOF = "proof.json"


@dataclass(frozen=True)
class Window:
    """A window in which a condition holds: its start and end in milliseconds since 1970, and the value in words."""

    start_ms: int
    end_ms: int
    text: str


@dataclass(frozen=True)
class Holding:
    """Whether a condition that is not about windows holds, and the value in words."""

    holds: bool
    text: str


class Look(Protocol):
    """What an alert needs to know of the lake."""

    @property
    def length_ms(self) -> int:
        """The length of a window of the gold table, in milliseconds."""

    @property
    def may_fall(self) -> bool:
        """True if more lines of a window can make its value smaller, as they do with an average or a share."""

    def settled(self) -> bool:
        """Return True if the gold table certainly counts every line that the source has."""

    def head(self) -> tuple[str, int] | None:
        """Return the ID and the newest version of the gold table; None without a table."""

    def newest(self, version: int) -> int | None:
        """Return the start of the newest window in a version of the gold table; None without rows."""

    def windows(self, version: int, after_ms: int, until_ms: int | None, most: int) -> list[Window]:
        """Return the windows of a version of the gold table in which the condition holds, the earliest first.

        Args:
            version: the version.
            after_ms: only windows that end after this time.
            until_ms: only windows that end by this time; None for all.
            most: the most windows to return.
        """

    def spans(self, after_ms: int, until_ms: int) -> tuple[list[Window], int]:
        """Return the times in which too many lines were refused, and up to when all lines are known.

        The last of these times may not be over yet.

        Args:
            after_ms: only times that begin then or later.
            until_ms: the current time.
        """

    def holding(self, now_ms: int) -> Holding | None:
        """Return whether a condition that is not about windows holds; None if it is not known."""


@dataclass(frozen=True)
class LakeLook(Look):
    """A look at a lake.

    Attributes:
        chain: the chain, with cached logs for repeated looks.
        condition: the condition.
        spark: returns the session; called only if rows of a gold table must be read.
        files: access to the files next to the tables.
    """

    chain: Chain
    condition: Condition
    spark: Callable[[], SparkSession]
    files: Files

    @property
    def _gold(self) -> Table:
        return Table("gold", self.condition.table)

    @property
    def length_ms(self) -> int:
        """The length of a window of the gold table, in milliseconds."""
        return built_by(self.chain, self.condition.table).seconds * 1000

    @property
    def may_fall(self) -> bool:
        """True if the measure is none of those that only grow, or fall only with negative or smaller values."""
        measures = built_by(self.chain, self.condition.table).parsed
        functions = [measure.function for measure in measures if measure.name == self.condition.column]
        return any(function not in _LASTING for function in functions)

    def settled(self) -> bool:
        stage_names = ("silver", str(self._gold))
        needed = [stage for stage in self.chain.stages if not stage.reads or stage.name in stage_names]
        try:
            complete = sum(not stage.reads for stage in needed) == len(self.chain.settings.by_name)
            return complete and all(backlog(self.chain.stage_state(stage)).count == 0 for stage in needed)
        except OncelakeError:  # for example, Kafka does not answer; the query itself reports it
            return False

    def head(self) -> tuple[str, int] | None:
        log = self.chain.commit_log(self._gold)
        version = log.newest()
        return (log.table_id() or "", version) if version is not None else None

    def newest(self, version: int) -> int | None:
        row = self._rows(version).agg(F.unix_millis(F.max(LOG_TIME)).alias("newest")).first()
        return row["newest"] if row else None

    def windows(self, version: int, after_ms: int, until_ms: int | None, most: int) -> list[Window]:
        declared = built_by(self.chain, self.condition.table)
        length = declared.seconds * 1000
        if self.condition.column not in declared.measures:
            raise ConfigError(
                f"{self._gold} has no {self.condition.column} yet, as it was built by another declaration. To build it "
                f"again: oncelake rebuild {self._gold}"
            )
        value = F.col(quoted(self.condition.column)).cast("double")
        rows = self._rows(version).where(_COMPARE[self.condition.operator](value, self.condition.limit))
        # guard: windows-before-first-look
        rows = rows.where(~F.isnan(value) & (F.col(LOG_TIME) > F.timestamp_millis(F.lit(after_ms - length))))
        if until_ms is not None:
            rows = rows.where(F.col(LOG_TIME) <= F.timestamp_millis(F.lit(until_ms - length)))
        row = F.struct(value.alias("value"), *(F.col(quoted(name)).cast("string").alias(name) for name in declared.by))
        worst = F.max(row) if ">" in self.condition.operator else F.min(row)
        grouped = rows.groupBy(LOG_TIME).agg(F.count("*").alias("groups"), worst.alias("worst")).orderBy(LOG_TIME)
        collected = grouped.select(F.unix_millis(LOG_TIME).alias("start"), "groups", "worst").limit(most).collect()
        return [Window(window["start"], window["start"] + length, self._text(window)) for window in collected]

    def _text(self, row: Row) -> str:
        worst: dict[str, Any] = row["worst"].asDict()
        value = worst.pop("value")
        where = ", ".join(f"{name}={printable(str(key), 60)}" for name, key in worst.items())
        others = f", and of {count_of(row['groups'] - 1, 'other group')}" if row["groups"] > 1 else ""
        return f"{self.condition.column} is {value:,.15g}{f' for {where}' if where else ''}{others}"

    def _rows(self, version: int) -> Any:
        return tables.read_version(self.spark(), self.chain.lake.at(self._gold), version)

    def spans(self, after_ms: int, until_ms: int) -> tuple[list[Window], int]:
        length = self.condition.span * 1000
        silver = named(self.chain.stages, "silver")
        state = self.chain.stage_state(silver)
        last = state.first.last
        if last is not None and state.checkpoint.open_batch == last.metadata.batch_id:
            until_ms = min(until_ms, last.timestamp)  # its refused lines may not be written yet
        finished = until_ms - until_ms % length
        read, refused = self._lines(silver, min(after_ms, until_ms - length), until_ms)
        windows = []
        for start in sorted({at - at % length for at in read if at >= after_ms}):
            lines, part = _part(read, refused, start, start + length)
            is_over = start < finished
            # a time that is not over may have few lines yet, so the lines before it count too
            # guard: unfinished-time-not-alone
            before = part if is_over else _part(read, refused, until_ms - length, until_ms)[1]
            if min(part, before) > self.condition.limit:
                text = f"{share(part)} of {count_of(lines, 'line')} are refused{'' if is_over else ' so far'}"
                windows.append(Window(start, start + length, text))
        return windows, finished

    def _lines(self, silver: Stage, after_ms: int, until_ms: int) -> tuple[Counter[int], Counter[int]]:
        """Return how many lines silver's batches read, and how many of them it refused, by the time of their commit."""
        times: dict[tuple[str, int], int] = {}
        read, refused = Counter[int](), Counter[int]()
        for table in (SILVER, *(other for other in silver.tables if other != SILVER)):
            for commit, stands in self.chain.commit_log(table).newest_first():
                metadata = commit.metadata
                if commit.timestamp < after_ms:
                    break
                if not stands or metadata is None or metadata.carries:
                    continue
                batch = (metadata.query_id, metadata.batch_id)
                if table == SILVER and commit.timestamp < until_ms:
                    times[batch] = commit.timestamp
                if batch in times:
                    read[times[batch]] += commit.lines_added
                    refused[times[batch]] += commit.rows_added if table == QUARANTINE else 0
        return read, refused

    def holding(self, now_ms: int) -> Holding | None:
        condition = self.condition
        if condition.subject == "proof":
            return _read_proof(self.files, self.chain.lake.root)
        stage = next((candidate for candidate in self.chain.stages if candidate.name == condition.stage), None)
        if stage is None:  # its source has failed, and the other sources go on
            return None
        state = self.chain.stage_state(stage)
        if condition.subject == "backlog":
            waits = backlog(state)
            if waits.count is None:
                return None
            text = f"the backlog of {stage.name} is {backlog_words(waits.count, waits.unit, waits.behind)}"
            return Holding(waits.count > condition.limit, text)
        last = state.first.last
        if last is None:
            return None
        # guard: future-commit-not-fresh
        age = abs(now_ms - last.timestamp) / 1000  # a clock that was ahead, and is right again, tells no age
        when = ago(age) if last.timestamp <= now_ms else "later than this machine's clock"
        text = f"the last commit of {stage.name} was {when}, at {utc(last.timestamp)}"
        return Holding(age > condition.limit, f"{text}; the limit is {duration(round(condition.limit))}")


def _part(read: Counter[int], refused: Counter[int], first_ms: int, end_ms: int) -> tuple[int, float]:
    """Return how many lines were read from one time to before another, and the share of them that was refused."""
    times = [at for at in read if first_ms <= at < end_ms]
    lines = sum(read[at] for at in times)
    return lines, sum(refused[at] for at in times) / lines if lines else 0.0


def _proof_path(lake: str) -> str:
    """Return the path of the result of the last proof."""
    return f"{lake}/_alerts/{PROOF}"


def _read_proof(files: Files, lake: str) -> Holding | None:
    """Return whether the last proof failed; None if there is none, or its result cannot be read."""
    try:
        result = json.loads(files.read(_proof_path(lake)) or "{}")
        return Holding(not result["holds"], str(result["text"]))
    except (ValueError, KeyError, TypeError):
        return None


def write_proof(files: Files, lake: str, *, holds: bool, text: str) -> None:
    """Record the result of a proof for the alerts.

    Raises:
        OSError: the lake is not writable.
    """
    files.write(_proof_path(lake), json.dumps({"holds": holds, "text": text}))
