"""Check the repeats that silver dropped: each has its twin in silver, and silver has no two lines of one event."""

from collections.abc import Container, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from oncelake.common.lake import DUPLICATES, SILVER, Table, place_of
from oncelake.common.table_rows import TableRows, TableVersion
from oncelake.common.wording import HANDFUL, count_of, listed, shown_name
from oncelake.exactly_once.link import Link
from oncelake.exactly_once.span import Span, rows_in
from oncelake.proof.balance import BronzeSpans
from oncelake.silver.duplicates import ORIGIN
from oncelake.silver.schema import EVENT_KEY, EVENT_WINDOW, TWIN

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What names a row, and in which order rows are named.
_NAMES = ("topic", "partition", "offset", "file")
_ORDER = ("ingested_at", *_NAMES)


def repeats(rows: TableRows, bronze: BronzeSpans, silver: Span, duplicates: Span) -> Link:
    """Prove that each dropped line repeats a line of silver within its window, and that no line of silver does.

    The window of each line is in its row. Lines that were made with different windows are not compared.

    Args:
        rows: answers queries.
        bronze: the spans of bronze, cut to what silver's span has read.
        silver: the span of silver.
        duplicates: the span of the table of repeats.
    """
    name, columns = f"{duplicates.table} → {silver.table}", rows.columns(silver.path, silver.version)
    if EVENT_KEY not in columns:
        return Link(name, str(duplicates.table), holds=True, said="no line is compared with others yet")
    times = {ms for span in bronze.values() for ms in span.by_time()}
    tables = {"silver": (silver.path, silver.version), "dropped": (duplicates.path, duplicates.version)}
    lines, repeated = rows_in(silver, times), rows_in(duplicates, times)
    (dropped,) = rows.records(f"SELECT count(*) AS n FROM {{dropped}} d WHERE {repeated}", tables)
    (seen,) = rows.records(
        f"SELECT count(s.{EVENT_KEY}) AS keys, CAST(coalesce(sum(CASE WHEN s.{EVENT_WINDOW} IS NOT NULL AND "
        f"s.{EVENT_KEY} IS NULL THEN 1 ELSE 0 END), 0) AS BIGINT) AS unkeyed FROM {{silver}} s WHERE {lines}",
        tables,
    )
    lonely = _without_twin(repeated, columns)
    faults = [
        *_named(rows, lonely, tables, DUPLICATES, "has no twin"),
        *_named(rows, _too_near("" if silver.whole else lines), tables, SILVER, "repeats a line that is there too"),
    ]
    unkeyed, keyed = seen["unkeyed"], count_of(seen["keys"], "line with a key repeats", "lines with a key repeat")
    twins = count_of(dropped["n"], "repeat has its twin", "repeats have their twins")
    notes = (count_of(unkeyed, "line has no key and is not compared", "lines have no key and are not compared"),)
    well = f"{twins} in {silver.table}; {keyed} no other"
    return Link.of(name, duplicates.table, faults, well, notes if unkeyed else ())


def _without_twin(condition: str, columns: Container[str]) -> str:  # guard: dropped-line-has-twin
    """Return in SQL the dropped lines without a row of silver that is their twin, of their key and within their window.

    Args:
        condition: which dropped lines are looked at.
        columns: the columns of silver.
    """
    known = ["log_time", *(name for name in ORIGIN if name in columns)]
    origin = [f"{_plain(f'h.{name}')} IS NOT DISTINCT FROM {_plain(f'd.{TWIN.name}.{name}')}" for name in known]
    same = [f"h.{EVENT_KEY} = d.{EVENT_KEY}", *origin]
    apart = f"abs(unix_micros(h.log_time) - unix_micros(d.log_time)) <= d.{EVENT_WINDOW}"
    is_twin = " AND ".join([*same, apart])  # guard: twin-within-window
    dropped = f"(SELECT * FROM {{dropped}} t WHERE {condition})"
    return f"SELECT {_columns('d')} FROM {dropped} d WHERE NOT EXISTS (SELECT 1 FROM {{silver}} h WHERE {is_twin})"


def _columns(of: str) -> str:
    """Return the columns of a row that name it, and `us`, its time in microseconds.

    A user's column may have any name, so no other one is selected; and it may be a word of SQL, so each stands behind
    a dot.
    """
    return ", ".join([*(f"{of}.{name}" for name in _ORDER), f"unix_micros({of}.log_time) AS us"])


def _plain(column: str) -> str:
    """Return a column, a time as a number: DuckDB hands times of a join on to Arrow only with pytz."""
    return f"unix_micros({column})" if column.endswith(("log_time", "ingested_at")) else column


def _too_near(condition: str) -> str:  # guard: no-repeat-in-silver
    """Return in SQL the rows of silver within the window of another one of their key, made with the same window.

    Args:
        condition: rows of other keys than these have are not looked at; empty for all.
    """
    among = f" AND t.{EVENT_KEY} IN (SELECT k.{EVENT_KEY} FROM {{silver}} k WHERE {condition})" if condition else ""
    order = ", ".join(f"s.{name} NULLS FIRST" for name in ("us", *_ORDER))
    before = f"lag(s.us) OVER (PARTITION BY s.{EVENT_KEY}, s.{EVENT_WINDOW} ORDER BY {order})"
    keyed = f"SELECT {_columns('t')}, t.{EVENT_KEY}, t.{EVENT_WINDOW} FROM {{silver}} t WHERE t.{EVENT_KEY} IS NOT NULL"
    apart = f"SELECT *, s.us - {before} AS apart FROM ({keyed}{among}) s"
    return f"SELECT * FROM ({apart}) n WHERE n.apart <= n.{EVENT_WINDOW}"


# guard: repeats-named-in-proof
def _named(rows: TableRows, text: str, tables: Mapping[str, TableVersion], table: Table, what: str) -> list[str]:
    """Return a fault that names a handful of the rows of a query; none without rows."""
    used = {name: at for name, at in tables.items() if f"{{{name}}}" in text}
    (found,) = rows.records(f"SELECT count(*) AS n FROM ({text}) f", used)
    if not found["n"]:
        return []
    chosen = ", ".join(f"f.{name}" for name in (*_NAMES, "us"))
    order = ", ".join(f"f.{name} NULLS FIRST" for name in (*_ORDER, "us"))
    first = rows.records(f"SELECT {chosen} FROM ({text}) f ORDER BY {order} LIMIT {HANDFUL}", used)
    return [f"{table}: {listed([_origin(row) for row in first], found['n'])} {what}"]


def _origin(row: Mapping[str, Any]) -> str:
    if row["file"] is not None:
        at = _EPOCH + timedelta(microseconds=row["us"])
        return f"a line of {shown_name(place_of(row['file']))} at {at:%Y-%m-%d %H:%M:%S}"
    return f"{row['topic']}/{row['partition']}/{row['offset']}"
