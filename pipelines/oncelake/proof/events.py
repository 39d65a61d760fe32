"""Check the rows of lines that have many events: each line has a row for each of its events, once."""

from collections.abc import Mapping
from typing import Any

from oncelake.common.lake import place_of
from oncelake.common.table_rows import TableRows
from oncelake.common.wording import count_of, listed, shown_name
from oncelake.exactly_once.link import Link
from oncelake.exactly_once.span import INGESTED_MS, Span
from oncelake.silver.schema import EVENT_COUNT, EVENT_INDEX

_ORIGIN = ("topic", "partition", "offset", "file", "taken", EVENT_COUNT)


def events(rows: TableRows, silver: Span, condition: str) -> Link:
    """Prove that the events of each line have the numbers from 0 up to their count, each once.

    Each row has its number and the count. Lines of a file have no identity, so a batch's lines of one file with the
    same count are checked together: each number must occur once for each of these lines.

    Args:
        rows: answers queries.
        silver: the span of silver.
        condition: which of its rows are compared, in SQL.
    """
    lines, tables = _by_line(condition), {"rows": (silver.path, silver.version)}
    (seen,) = rows.records(
        "SELECT CAST(coalesce(sum(l.lines), 0) AS BIGINT) AS lines, CAST(coalesce(sum(l.of_line), 0) AS BIGINT) "
        f"AS of_line, CAST(coalesce(sum(CASE WHEN l.off THEN 1 ELSE 0 END), 0) AS BIGINT) AS off FROM ({lines}) l",
        tables,
    )
    messages = []
    if seen["off"]:
        order = ", ".join(f"l.{name} NULLS FIRST" for name in _ORIGIN if name != "taken")
        (first,) = rows.records(f"SELECT * FROM ({lines}) l WHERE l.off ORDER BY {order}, l.of_line LIMIT 1", tables)
        wrong = listed([_words(first)], seen["off"])
        messages = [f"{silver.table}: {wrong}; each event of a line must have one row"]
    with_events = count_of(seen["lines"], "line with events is", "lines with events are")
    well = f"{with_events} {count_of(seen['of_line'], 'row')}, one for each"
    return Link.of(f"events of {silver.table}", silver.table, messages, well)


def _by_line(condition: str) -> str:
    """Return in SQL the lines with events, of one origin and count together: how many, their rows, and if one is off.

    A user's column may have any name, so no other one is selected; and it may be a word of SQL, so each stands behind
    a dot.
    """
    columns = ", ".join(f"t.{name}" for name in (*_ORIGIN, EVENT_INDEX) if name != "taken")
    origin_of_row = ", ".join(f"r.{name}" for name in (*_ORIGIN, EVENT_INDEX))
    index, count = f"n.{EVENT_INDEX}", f"n.{EVENT_COUNT}"
    numbered = (
        f"SELECT {origin_of_row}, count(*) AS same "
        f"FROM (SELECT {columns}, {INGESTED_MS} AS taken FROM {{rows}} t "
        f"WHERE ({condition}) AND coalesce(t.{EVENT_INDEX}, t.{EVENT_COUNT}) IS NOT NULL) r GROUP BY {origin_of_row}"
    )
    has_numbers = f"bool_and(coalesce({index} >= 0 AND {index} < {count}, FALSE))"  # guard: event-number-below-count
    has_all = f"count(*) = {count}"  # guard: events-of-line-complete
    has_each_once = "min(n.same) = max(n.same)"  # guard: event-of-line-once
    origin = ", ".join(f"n.{name}" for name in _ORIGIN)
    is_off = f"coalesce(NOT ({has_numbers} AND {has_all} AND {has_each_once}), TRUE)"
    counts = "max(n.same) AS lines, CAST(sum(n.same) AS BIGINT) AS of_line"
    return f"SELECT {origin}, {counts}, {is_off} AS off FROM ({numbered}) n GROUP BY {origin}"


def _words(row: Mapping[str, Any]) -> str:
    origin = f"{row['topic']}/{row['partition']}/{row['offset']}"
    where = origin if row["file"] is None else f"of lines in {shown_name(place_of(row['file']))}"
    count = "without a count" if row[EVENT_COUNT] is None else f"with {count_of(row[EVENT_COUNT], 'event')}"
    return f"{count_of(row['of_line'], 'row')} {where} {count}"
