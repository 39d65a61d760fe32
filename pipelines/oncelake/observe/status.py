"""A stage's state in words and numbers, for `status` and `doctor`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from oncelake.common.errors import SourceError
from oncelake.common.lake import DUPLICATES, QUARANTINE, Lake, Table
from oncelake.common.wording import age, ago, count_of, is_ahead
from oncelake.engine.chain import Chain, StageState
from oncelake.engine.graph import Stage
from oncelake.engine.start_gate import block_reason
from oncelake.exactly_once.source import Backlog, Unit, without_end_words
from oncelake.exactly_once.state import State
from oncelake.observe.columns import Column, fitting, line

# The state of a stage whose source does not answer.
AWAY = "source away"
# On a narrow terminal, columns are dropped in this order.
GIVE_WAY = ("behind", "batch", "quarantine", "duplicates", "last batch", "newest line")


@dataclass(frozen=True)
class StageStatus:
    """The status of a stage.

    Attributes:
        stage: the stage's name.
        state: the state's name, as in docs/guarantee.md.
        may_start: True if `run` would start it.
        batch_id: the last batch in its first table.
        rows: rows that the chain has written, per table.
        backlog: input that is not processed yet, in `backlog_unit`; null if it is too costly to count.
        backlog_behind: how much of it waits for the end of an open transaction in Kafka; no run can read it before.
        freshness_seconds: seconds since its last batch was committed; negative if that is in the future by this clock.
        seconds_behind: seconds since the commit of the oldest row that the stage has not read, negative if that is in
            the future; 0 if there is none; null if the stage does not read a table, or if it is too costly to find out.
        detail: what was found, and what to do if the stage may not start.
        warnings: problems that do not stop the chain.
        quality: about the last batch with rows that broke a rule or a limit: its `batch_id` and `lines`, how many broke
            each of the `rules`, and the limits in `warned`; null before the first such batch, and right after a replay.
        page: the page in docs/operations about the state.
        newest_line: the time of the newest line that the stage has counted, in UTC; null before its first batch, of
            bronze, which reads no time, and where the log of silver is not on a local disk.
        newest_line_seconds: the seconds since then; negative if it is in the future by this clock.
        without_end: the files that grow whose last line has no end yet; the next run reads it when its end is written.
    """

    stage: str
    state: str
    may_start: bool
    batch_id: int | None
    rows: dict[str, int]
    backlog: int | None
    backlog_unit: Unit
    freshness_seconds: float | None
    seconds_behind: float | None
    detail: str
    warnings: list[str]
    quality: dict[str, Any] | None = None
    page: str = ""
    backlog_behind: int = 0
    newest_line: str | None = None
    newest_line_seconds: float | None = None
    without_end: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the status as a dict for JSON."""
        return asdict(self)


def backlog(state: StageState) -> Backlog:
    """Return how much the stage's source holds after the position that its first table records."""
    if state.diagnosis.state is State.TARGET_AWAY:
        return Backlog(None, "rows")
    return state.source.backlog(state.first.end, changes=state.stage.served is not None)


def backlog_words(count: int | None, unit: str, behind: int = 0) -> str:
    """Return a backlog with its unit: `1 file`, `20,000 rows`; `?` if the count is not known.

    `behind` is how much of it waits for an open transaction.
    """
    text = "?" if count is None else count_of(count, unit.removesuffix("s"))
    return f"{text}, {behind:,} of them behind an open transaction" if behind else text


def stage_status(state: StageState, now: datetime | None = None) -> StageStatus:
    """Return the status of one stage."""
    waits, last = backlog(state), state.first.last
    now_ms = (now or datetime.now(UTC)).timestamp() * 1000
    behind = 0.0 if waits.unit == "rows" and waits.count == 0 else None
    if waits.since_ms:
        behind = seconds_between(waits.since_ms, now_ms)
    recovers = state.recovers
    detail = state.diagnosis.seen if state.diagnosis.may_start else block_reason(state)
    if recovers:
        detail = f"{state.diagnosis.seen}; the next run on this host writes it again from the table"
    row = StageStatus(
        stage=state.stage.name,
        state=state.diagnosis.state.value,
        may_start=state.diagnosis.may_start or recovers,
        batch_id=state.first.batch_id,
        rows={str(table): table_state.rows for table, table_state in state.table_states.items()},
        backlog=waits.count,
        backlog_unit=waits.unit,
        freshness_seconds=seconds_between(last.timestamp, now_ms) if last else None,
        seconds_behind=behind,
        detail=detail,
        warnings=state.source.warnings(),
        quality=_quality(state),
        page=state.diagnosis.state.page,
        backlog_behind=waits.behind,
        without_end=state.source.without_end() if waits.count else [],
    )
    return replace(row, warnings=[*ahead(row), *row.warnings])


def ahead(row: StageStatus) -> list[str]:  # guard: commit-in-future-named
    """Return a warning if a stage's last commit is in the future."""
    seconds = row.freshness_seconds
    if seconds is None or not is_ahead(seconds):
        return []
    return [
        f"{row.stage}: the last commit is {round(-seconds):,} s in the future; the clock went back, or another "
        "machine's clock is ahead"
    ]


def away_status(chain: Chain, stage: Stage, error: SourceError) -> StageStatus:
    """Return the status of a stage whose source does not answer."""
    states = {table: chain.commit_log(table).state() for table in stage.tables}
    return StageStatus(
        stage=stage.name,
        state=AWAY,
        may_start=False,
        batch_id=states[stage.tables[0]].batch_id,
        rows={str(table): state.rows for table, state in states.items()},
        backlog=None,
        backlog_unit="records",
        freshness_seconds=None,
        seconds_behind=None,
        detail=f"{stage.name}: {AWAY}: {error}",
        warnings=[],
    )


def _quality(state: StageState) -> dict[str, Any] | None:
    known = [table_state.metadata for table_state in state.table_states.values()]
    return next(
        ({"batch_id": metadata.batch_id, **metadata.quality} for metadata in known if metadata and metadata.quality),
        None,
    )


def seconds_between(then_ms: int, now_ms: float) -> float:
    """Return the seconds from one time to another, with one decimal."""
    return round((now_ms - then_ms) / 1000, 1) + 0.0  # no -0.0


def status_sentence(row: StageStatus) -> str:
    """Return a stage's status in one line."""
    if not row.may_start:
        return row.detail
    if row.batch_id is None:
        return f"{row.stage}: {row.state}: {row.detail}"
    committed = "" if row.freshness_seconds is None else f", committed {ago(row.freshness_seconds)}"
    waits = (
        "" if row.backlog is None else f", backlog {backlog_words(row.backlog, row.backlog_unit, row.backlog_behind)}"
    )
    return f"{row.stage}: {row.state}: batch {row.batch_id}{committed}, {_rows(row)}{waits}"


def status_table(rows: Sequence[StageStatus], width: int | None) -> list[Text]:
    """Return the stages as the lines of a table.

    Args:
        rows: the stages.
        width: the maximum line width in cells; None to keep every column, for output that is not a terminal.
    """
    has_duplicates = any(str(DUPLICATES) in row.rows for row in rows)
    columns = [column for column in _COLUMNS if has_duplicates or column.title != DUPLICATES.name]
    widths = fitting(columns, rows, GIVE_WAY, width)
    return [line(widths, row) for row in (None, *rows)]


def _beside(row: StageStatus, table: Table) -> str:
    return f"{row.rows[str(table)]:,}" if str(table) in row.rows else ""


_COLUMNS: Sequence[Column[StageStatus]] = (
    Column("stage", lambda row: row.stage, right=False),
    Column("state", lambda row: row.state, right=False, style=lambda row: "" if row.may_start else "bold red"),
    Column("batch", lambda row: "-" if row.batch_id is None else str(row.batch_id)),
    Column("rows", lambda row: f"{next(iter(row.rows.values())):,}"),
    Column("quarantine", lambda row: _beside(row, QUARANTINE)),
    Column("duplicates", lambda row: _beside(row, DUPLICATES)),
    Column("backlog", lambda row: backlog_words(row.backlog, row.backlog_unit)),
    Column("behind", lambda row: "" if row.seconds_behind is None else age(row.seconds_behind)),
    Column("newest line", lambda row: "" if row.newest_line_seconds is None else ago(row.newest_line_seconds)),
    Column("last batch", lambda row: "-" if row.freshness_seconds is None else ago(row.freshness_seconds)),
)


def quality_lines(rows: Iterable[StageStatus]) -> Iterator[str]:
    """Yield one line per stage about its last batch that broke a rule or a limit."""
    for row in rows:
        if row.quality is None:
            continue
        broken = ", ".join(f"{rule} {count:,}" for rule, count in row.quality["rules"].items())
        warned = f"; warnings: {', '.join(row.quality['warned'])}" if row.quality["warned"] else ""
        rules = f"broke rules: {broken or 'none'}"
        lines = count_of(row.quality["lines"], "line")
        yield f"{row.stage}: batch {row.quality['batch_id']}, {lines}, {rules}{warned}"


def checkpoint_lines(lake: Lake) -> Iterator[str]:
    """Yield where the checkpoints are, if each host has its own."""
    if lake.per_host:
        yield f"the checkpoints of this host are in {lake.checkpoints}"


def waiting_lines(rows: Iterable[StageStatus]) -> Iterator[str]:
    """Yield one line per stage whose source waits for the end of a file's last line."""
    for row in rows:
        if row.without_end:
            yield f"{row.stage}: {without_end_words(row.without_end)}"


def _rows(row: StageStatus) -> str:
    first, *others = row.rows.items()
    if not others:
        return count_of(first[1], "row")
    more = "".join(f" + {count:,} {table.split('.')[1]}" for table, count in others)
    return f"{first[1]:,}{more} rows"
