"""Trace of a bronze line through silver, or quarantine, to every gold table.

The positions in the commit metadata show which commit of a table wrote the line.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from oncelake.bronze.mask import VERSION
from oncelake.bronze.mask_versions import MaskVersion
from oncelake.common.errors import OncelakeError
from oncelake.common.lake import BRONZE, DUPLICATES, QUARANTINE, SILVER, Table, bronze_of
from oncelake.common.table_rows import TableRows, picked, plain_rows, same
from oncelake.common.wording import count_of
from oncelake.engine.chain import Chain, named
from oncelake.engine.graph import Stage
from oncelake.engine.preflight import all_built_by
from oncelake.engine.rules import mask_versions
from oncelake.engine.sources import bronze_tables
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.delta_log import ChainCommit, DeltaLog
from oncelake.exactly_once.positions import in_table
from oncelake.gold.declaration import LOG_TIME, GoldTable
from oncelake.gold.groups import PlainGold
from oncelake.gold.transform import aggregate
from oncelake.observe.trace.find import (
    BronzeLine,
    BronzeRows,
    LineQuery,
    Masks,
    NoFileError,
    Position,
    bronze_has,
    find,
)
from oncelake.observe.trace.line_again import LineAgain
from oncelake.observe.trace.lineage import At, Lineage, TraceStep
from oncelake.silver.schema import EVENT_COUNT, EVENT_INDEX, SOURCE

if TYPE_CHECKING:
    import pyarrow

# The columns of silver by which a line of a file is recognized in SQL, beside its time.
_TEXTS = ("level", "message")
_PROVE = "to find the wrong rows, run: oncelake prove"


@dataclass(frozen=True)
class Tracer:
    """Traces lines through the tables of a lake.

    Attributes:
        chain: the declared chain.
        spark: returns the session; called for masked lines, and for a line's parts or the window and keys of a gold
            table that only Spark computes.
    """

    chain: Chain
    spark: Callable[[], SparkSession]

    @cached_property
    def _rows(self) -> TableRows:
        return TableRows(self.spark)

    def way(self, query: LineQuery) -> Lineage:
        """Return the lineage of a line.

        Raises:
            OncelakeError: the line is not in bronze.
        """
        line = self._find(query)
        return Lineage(self._query_text(query, line), line.text, line.equal, tuple(self._steps(line)))

    def _steps(self, line: BronzeLine) -> Iterator[TraceStep]:
        bronze = self._bronze(line)
        yield bronze
        versions = [commit.version for commit in bronze.commits]
        refused = self._quarantine(line, versions)
        if refused is not None:
            yield refused
            return
        repeats, dropped = self._duplicates(line, versions)
        if dropped is not None:
            yield dropped
            if repeats >= line.equal:
                return
        rows = self._silver_rows(line, versions)
        silver = self._silver(replace(line, equal=line.equal - repeats), rows, versions)
        yield silver
        for name, declared in all_built_by(self.chain).items():
            yield self._gold(name, declared, silver, rows)

    def _find(self, query: LineQuery) -> BronzeLine:
        tables = [table for table in bronze_tables(self.chain) if self._is_there(table)]
        if not tables:
            raise OncelakeError(f"{BRONZE} does not exist yet: nothing has been ingested. Run: oncelake run")
        errors: dict[Table, OncelakeError] = {}
        masks = None if isinstance(query, Position) else self._masks(tables)
        for table in tables:
            rows = self._bronze_rows(table)
            try:
                line = find(rows, query, masks)
            except OncelakeError as error:
                errors[table] = error
                continue
            if line.row["topic"] is None and table.name not in self.chain.silver.parsers:
                raise OncelakeError(
                    f"the line is in {table}, but sources.{table.name} is not in the settings, so its format is not "
                    "known; put the source back to trace its lines"
                )
            return line
        others = {table: error for table, error in errors.items() if not isinstance(error, NoFileError)}
        if not others:
            raise _no_file([error for error in errors.values() if isinstance(error, NoFileError)])
        if len(others) == 1:
            raise next(iter(others.values()))
        raise OncelakeError("; ".join(f"{table}: {error}" for table, error in others.items()))

    def _masks(self, tables: Sequence[Table]) -> Masks | None:  # guard: traced-text-masked
        """Return the rules that lines of some bronze tables were masked with; None if none was and none will be."""
        masked = [rows for rows in map(self._bronze_rows, tables) if VERSION in rows.columns]
        if not masked and not any(source.mask for source in self.chain.settings.by_name.values()):
            return None
        versions, query = mask_versions(self.chain.lake, self.spark), f"SELECT DISTINCT t.{VERSION} FROM {{rows}} t"
        named = [name for rows in masked for name in rows.column(query) if name is not None]
        known = map(versions.of, named)
        return Masks([version.mask for version in known if isinstance(version, MaskVersion)])

    @staticmethod
    def _query_text(query: LineQuery, line: BronzeLine) -> str:
        """Return the query as text; of a masked line, only what bronze holds of it."""
        if line.row.get(VERSION) is None or isinstance(query, Position):
            return str(query)
        return f"{unquote(line.row['file']).rsplit('/', 1)[-1]}:{line.text}"

    def _bronze(self, line: BronzeLine) -> TraceStep:
        bronze = _table(line)
        planned = datetime.fromisoformat(line.row["ingested_at"])
        commits = tuple(commits_planned_at(self.chain.commit_log(bronze), planned))
        most = line.equal if line.row["topic"] is None else 1
        if line.batches > 1 or line.equal > most:
            rows, batches = count_of(line.equal, "row"), count_of(line.batches, "batch")
            why = f"{rows} from {batches} for this one line; {_PROVE}"
            return TraceStep(str(bronze), At.DOUBLED, why, line.row, commits)
        return TraceStep(str(bronze), At.THERE, row=line.row, commits=commits)

    def _quarantine(self, line: BronzeLine, versions: list[int]) -> TraceStep | None:
        if not self._is_there(QUARANTINE):
            return None
        rows = self._rows_of(line, QUARANTINE, "reasons")
        if not rows:
            return None
        at, why = _judge(len(rows), line)
        at = At.REFUSED if at is At.THERE else at
        return TraceStep(str(QUARANTINE), at, why, rows[0], self._commits(QUARANTINE, _table(line), versions))

    def _duplicates(self, line: BronzeLine, versions: list[int]) -> tuple[int, TraceStep | None]:
        """Return how many of the equal lines were dropped as repeats, and the step of one of them; None without any."""
        if not self._is_there(DUPLICATES):
            return 0, None
        rows = self._rows_of(line, DUPLICATES, "log_time", "twin")
        if not rows:
            return 0, None
        at, why = (At.DROPPED, "") if len(rows) <= line.equal else (At.DOUBLED, _judge(len(rows), line)[1])
        commits = self._commits(DUPLICATES, _table(line), versions)
        return len(rows), TraceStep(str(DUPLICATES), at, why, rows[0], commits)

    def _rows_of(self, line: BronzeLine, table: Table, *columns: str) -> list[dict[str, Any]]:
        """Return columns of the rows that a table beside silver has for the line."""
        shown = ", ".join(f"t.{column}" for column in columns)
        condition, values = self._origin(line, table)
        condition += f" AND {same('t.value', line.content, values)}"
        return plain_rows(self._query(f"SELECT {shown} FROM {{rows}} t WHERE {condition}", table, **values))

    def _silver_rows(self, line: BronzeLine, versions: list[int]) -> "SilverRows | None":
        """Return silver's rows for the line; None if there is no silver table.

        Lines of a file have no number, so they are matched by their parsed values.
        """
        if not self._is_there(SILVER):
            return None
        if line.row["topic"] is not None:
            return SilverRows(self._rows, self.chain.lake.at(SILVER), *self._origin(line, SILVER))
        again = self._again(line)
        parsed = again.without_spark()
        if parsed is not None:
            rows = self._rows_like(line, parsed)
            if rows.table.num_rows or self._waits(SILVER, _table(line), versions):  # guard: unmatched-line-by-spark
                return rows
        return self._rows_like(line, again.with_spark())

    def _rows_like(self, line: BronzeLine, parsed: Sequence[Mapping[str, Any]]) -> "SilverRows":
        """Return silver's rows for the line that have the values of its parsed rows."""
        condition, values = self._origin(line, SILVER)
        silver, texts = self._rows.columns(self.chain.lake.at(SILVER)), []
        for row in parsed:
            recognized = {"log_time": datetime.fromisoformat(row["log_time"]), **_picked(row, _TEXTS)}
            texts.append(" AND ".join(same(f"t.{name}", value, values) for name, value in recognized.items()))
        condition += f" AND ({' OR '.join(f'({text})' for text in texts) or 'false'})"
        names = ["log_time", *_TEXTS, "fields", *(name for name in (EVENT_INDEX, EVENT_COUNT) if name in silver)]
        rows = [{name: row[name] for name in names if name in row} for row in parsed]
        return SilverRows(self._rows, self.chain.lake.at(SILVER), condition, values, rows)

    def _written_by(self, rows: "SilverRows", batch: tuple[ChainCommit, ...]) -> tuple[ChainCommit, ...]:
        """Return the commits that can have written these silver rows: the line's batch, or later replays."""
        commit_log, first = self.chain.commit_log(SILVER), min((commit.version for commit in batch), default=-1)
        replays = replays_after(commit_log, first)
        if not replays:
            return batch
        candidates = (*batch, *replays)
        names = {commit.version: added(commit_log, commit) for commit in candidates}
        files = rows.files(set().union(*names.values()))
        return tuple(commit for commit in candidates if names[commit.version] & files) or candidates

    def _silver(self, line: BronzeLine, rows: "SilverRows | None", versions: list[int]) -> TraceStep:
        commits = self._commits(SILVER, _table(line), versions)
        silver_rows = plain_rows(rows.table) if rows is not None else []
        if rows is not None and silver_rows:
            commits = self._written_by(rows, commits)
            events = [row for row in silver_rows if row.get(EVENT_INDEX) is not None]
            events.sort(key=lambda row: row[EVENT_INDEX])
            at, why = _judge_events(events, line) if events else _judge(len(silver_rows), line)
            return TraceStep(str(SILVER), at, why, (events or silver_rows)[0], commits, tuple(events))
        at, why = self._why_not_in_silver(line, [commit.version for commit in commits], versions)
        return TraceStep(str(SILVER), at, why, commits=commits)

    def _why_not_in_silver(self, line: BronzeLine, silver_versions: list[int], versions: list[int]) -> tuple[At, str]:
        commit_log, stage = self.chain.commit_log(SILVER), named(self.chain.stages, "silver")
        if self._waits(SILVER, _table(line), versions):
            return At.NOT_YET, self._behind(stage, _table(line), versions)
        table_state = commit_log.state()
        refused = self._again(line).is_refused()
        last = table_state.last
        if last and last.version in silver_versions and (refused or self._lacks_repeats(last)):
            return (
                At.NOT_YET,
                f"its batch is unfinished: {SILVER} has it, {QUARANTINE if refused else DUPLICATES} not yet",
            )
        if table_state.metadata and table_state.metadata.rules != stage.rules:
            seen = "was written with another log format or other time limits than are configured now"
            return At.UNKNOWN, f"{SILVER} {seen}, so the line's row cannot be identified"
        return At.MISSING, f"silver has read the line, but neither {SILVER} nor {QUARANTINE} has a row for it; {_PROVE}"

    def _lacks_repeats(self, commit: ChainCommit) -> bool:
        """Return True if the table of repeats lacks those of silver's last batch."""
        last_batch = self.chain.commit_log(DUPLICATES).state().batch_id
        return commit.metadata.deduplicated.get("dropped", 0) > 0 and last_batch != commit.metadata.batch_id

    def _gold(self, name: str, declared: GoldTable, silver: TraceStep, rows: "SilverRows | None") -> TraceStep:
        table, versions = Table("gold", name), [commit.version for commit in silver.commits]
        if rows is None or silver.row is None:
            at = At.NOT_YET if silver.at is At.NOT_YET else At.UNKNOWN
            return TraceStep(str(table), at, f"{SILVER} has no row for it")
        keys = self._groups(rows.table if silver.rows else rows.table.slice(0, 1), declared)
        if not keys:
            return TraceStep(str(table), At.LEFT_OUT, f"the line does not match `where`: {declared.where}")
        if self._waits(table, SILVER, versions):
            behind = self._behind(named(self.chain.stages, str(table)), SILVER, versions)
            return TraceStep(str(table), At.NOT_YET, behind)
        commits = self._commits(table, SILVER, versions)
        now = [row for row in self._gold_rows(table, declared, keys) if _picked(row, keys[0]) in keys]
        if len(now) == len(keys):
            return TraceStep(
                str(table), At.COUNTED, row=now[0], commits=commits, rows=tuple(now) if silver.rows else ()
            )
        if len(now) > len(keys):
            return TraceStep(
                str(table),
                At.DOUBLED,
                f"{len(now)} rows have the line's window and keys; {_PROVE}",
                now[0],
                commits,
            )
        counted = [_picked(row, keys[0]) for row in now]
        lacking = next(key for key in keys if key not in counted)
        return TraceStep(str(table), At.MISSING, f"no row has the window and keys {lacking}; {_PROVE}", commits=commits)

    def _groups(self, rows: "pyarrow.Table", declared: GoldTable) -> list[dict[str, Any]]:
        """Return the window and keys that rows of silver have in a gold table."""
        plain = PlainGold.of(declared)
        if plain is not None:
            return plain.groups(plain_rows(rows))
        groups = aggregate(self.spark().createDataFrame(rows), declared).toArrow()
        return plain_rows(groups.select([LOG_TIME, *declared.by]))

    def _gold_rows(
        self, table: Table, declared: GoldTable, groups: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the rows of a gold table in the windows of some groups, without its hidden columns."""
        starts = sorted({group[LOG_TIME] for group in groups})
        windows = {f"at{number}": datetime.fromisoformat(start) for number, start in enumerate(starts)}
        places = ", ".join(f":{name}" for name in windows)
        rows = self._query(f"SELECT * FROM {{rows}} t WHERE t.{LOG_TIME} IN ({places})", table, **windows)
        return plain_rows(rows.select([LOG_TIME, *declared.by, *declared.measures]))

    def _again(self, line: BronzeLine) -> LineAgain:
        return LineAgain(line, self.chain.silver, self.spark)

    def _commits(self, table: Table, reads: Table, versions: list[int]) -> tuple[ChainCommit, ...]:
        log, source = self.chain.commit_log(table), self.chain.commit_log(reads).table_id()
        commits = {commit.version: commit for version in versions for commit in commits_reading(log, source, version)}
        return tuple(commits[version] for version in sorted(commits))

    def _waits(self, table: Table, reads: Table, versions: list[int]) -> bool:
        """Return True if a stage has not read the line yet; False if the line's commit is no longer in the log."""
        if not self._is_there(table):
            return True
        commit_log, source = self.chain.commit_log(table), self.chain.commit_log(reads).table_id()
        return bool(versions) and all(is_behind(commit_log, source, version) for version in versions)

    def _behind(self, stage: Stage, reads: Table, versions: list[int]) -> str:
        what = f"version {versions[-1]} of {reads}" if versions else str(reads)
        metadata = self.chain.commit_log(stage.writes[0].table).state().metadata
        at = f"it is at batch {metadata.batch_id}" if metadata else "it has no batch yet"
        return f"{stage.name} has not read {what} yet ({at}); run: oncelake run"

    def _is_there(self, table: Table) -> bool:
        return self.chain.commit_log(table).newest() is not None

    def _bronze_rows(self, table: Table) -> BronzeRows:
        return BronzeRows(self._rows, self.chain.lake.at(table), table.name if self.chain.silver.named else None)

    def _query(self, text: str, table: Table, **values: Any) -> "pyarrow.Table":
        return self._rows.query(text, self.chain.lake.at(table), **values)

    def _origin(self, line: BronzeLine, table: Table) -> tuple[str, dict[str, Any]]:
        """Return the condition for a line's origin, and its values."""
        if line.row["topic"] is not None:
            values = {name: line.row[name] for name in ("topic", "partition", "offset")}
        else:
            values = {"file": line.row["file"], "ingested_at": line.ingested_at}
        condition = " AND ".join(f"t.{name} = :{name}" for name in values)
        if SOURCE.name in self._rows.columns(self.chain.lake.at(table)):
            # as in silver.rules.source_name
            condition += f" AND coalesce(t.{SOURCE.name}, '{BRONZE.name}') = :{SOURCE.name}"
            values[SOURCE.name] = _table(line).name
        return condition, values


@dataclass(frozen=True)
class SilverRows:
    """Silver's rows of one line.

    Attributes:
        rows: answers queries over the lake's tables.
        at: silver's place.
        condition: what the rows meet, in SQL.
        values: the values of the condition.
        same: what the rows have besides, as one of these; None if the condition is enough.
    """

    rows: TableRows
    at: str
    condition: str
    values: Mapping[str, Any]
    same: Sequence[Mapping[str, Any]] | None = None

    @cached_property
    def table(self) -> "pyarrow.Table":
        """The rows."""
        return self._chosen(self.rows.query(f"SELECT * FROM {{rows}} t WHERE {self.condition}", self.at, **self.values))

    def files(self, names: Container[str]) -> set[str]:
        """Return those of some data files that have one of the rows."""
        parts = self.rows.by_file(self.condition, self.at, names, **self.values)
        return {name for name, part in parts.items() if self._chosen(part).num_rows}

    def _chosen(self, table: "pyarrow.Table") -> "pyarrow.Table":
        if not self.same:
            return table
        return picked(table, [_picked(row, self.same[0]) in self.same for row in plain_rows(table)])


def _picked(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _table(line: BronzeLine) -> Table:
    """Return the bronze table that a line is in."""
    return bronze_of(line.row.get(SOURCE.name) or BRONZE.name)


def _judge(rows: int, line: BronzeLine) -> tuple[At, str]:
    """Compare the number of rows in a table with the number of equal lines in bronze.

    More rows than lines are an error only for Kafka: other lines of a file can have the same parsed values.
    """
    seen = f"{count_of(rows, 'row')} for {count_of(line.equal, 'equal line')}; {_PROVE}"
    if rows < line.equal:
        return At.MISSING, seen
    if rows > line.equal and line.row["topic"] is not None:
        return At.DOUBLED, seen
    return At.THERE, ""


def _judge_events(events: Sequence[Mapping[str, Any]], line: BronzeLine) -> tuple[At, str]:
    """Compare the rows of a line's events with their count, each as often as the line is there."""
    for number in range(events[0][EVENT_COUNT]):
        same = sum(row[EVENT_INDEX] == number for row in events)
        at, why = _judge(same, line)
        if at is not At.THERE:
            return at, f"event {number}: {why}"
    return At.THERE, ""


def _no_file(errors: Sequence[NoFileError]) -> OncelakeError:
    """Return the error of a query that names no file of any bronze table."""
    names = sorted({name for error in errors for name in error.names})
    content = bronze_has(names) or "bronze has no line from a file"
    example = f"; put the file before the line, as in '{names[0]}:LINE'" if names else ""
    return OncelakeError(
        f"no file path in bronze ends with the text before a colon in {errors[0].place}; {content}{example}"
    )


def commits_planned_at(commit_log: DeltaLog, ingested_at: datetime) -> list[ChainCommit]:
    """Return bronze's commit of the batch planned at a time; empty if it is no longer in the log."""
    millis = round(ingested_at.timestamp() * 1000)
    return [batch for batch in _batches(commit_log) if batch.metadata.planned_ms == millis][:1]


def commits_reading(commit_log: DeltaLog, table_id: str | None, version: int) -> list[ChainCommit]:
    """Return the commits that can have read one version of the upstream table, oldest first.

    This is one commit, unless several batches read a large version or the first snapshot.
    """
    commits: list[ChainCommit] = []
    for commit in _batches(commit_log):
        start, end = in_table(commit.metadata.before, table_id), in_table(commit.metadata.end, table_id)
        if end is None or not end.may_have_read(version):
            break
        if start is None or not start.has_read(version):
            commits.insert(0, commit)
    return commits


def replays_after(commit_log: DeltaLog, version: int) -> tuple[ChainCommit, ...]:
    """Return the replay commits after a version, oldest first: they move rows from quarantine to silver."""
    replays: list[ChainCommit] = []
    for commit, stands in commit_log.newest_first():
        if commit.version <= version:
            break
        if stands and isinstance(commit, ChainCommit) and commit.metadata.event is CommitKind.REPLAY:
            replays.insert(0, commit)
    return tuple(replays)


def added(commit_log: DeltaLog, commit: ChainCommit) -> set[str]:
    """Return the names of the data files that a commit added."""
    return {unquote(path).rsplit("/", 1)[-1] for path in commit_log.files_added(commit.version)}


def is_behind(commit_log: DeltaLog, table_id: str | None, version: int) -> bool:
    """Return True if a stage has not read all of one version of the upstream table."""
    at = in_table(commit_log.state().end, table_id)
    return at is None or not at.has_read(version)


def _batches(commit_log: DeltaLog) -> Iterator[ChainCommit]:
    """Yield, newest first, the commits that cover a range of the source and whose rows still exist."""
    for commit, stands in commit_log.newest_first():
        if stands and isinstance(commit, ChainCommit) and not commit.metadata.carries:
            yield commit
