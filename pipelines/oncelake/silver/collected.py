"""Split and count the parsed rows of a small batch in this process, as `transform` does it in Spark."""

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING

from oncelake.common.spark.rows import Collected
from oncelake.quality.split import MARKS
from oncelake.quality.suite import FORMAT_RULES
from oncelake.silver.parsing.events import EVENTS
from oncelake.silver.schema import QUARANTINE, SILVER, columns, silver_columns

if TYPE_CHECKING:
    import pyarrow


def accepted(parsed: Collected) -> Collected:
    """Return silver's rows: those that broke no rule."""
    rows = unbroken(parsed)
    return _by_event(rows) if EVENTS in parsed.columns else as_silver(rows)


def unbroken(parsed: Collected) -> Collected:
    """Return the rows that broke no rule, with all their columns."""
    return parsed.where(_is_accepted(parsed))


def as_silver(parsed: Collected) -> Collected:
    """Return rows with silver's columns alone."""
    return parsed.select(silver_columns(parsed.columns))


def quarantined(parsed: Collected) -> Collected:
    """Return quarantine's rows: those that broke a rule, with bronze's columns and the reasons."""
    return _refused(parsed).select(columns(QUARANTINE, parsed.columns))


def broken(parsed: Collected) -> Mapping[str, int]:
    """Count how many rows broke each rule of the format and the suite; only rules that were broken."""
    import pyarrow  # noqa: PLC0415 - a run that collects nothing need not have it
    import pyarrow.compute as pc  # noqa: PLC0415

    refused = _refused(parsed).rows
    reasons = refused["reasons"].combine_chunks()
    first = pc.struct_field(pc.list_element(reasons, 0), "rule")
    is_judged = pc.invert(pc.is_in(first, pyarrow.array(FORMAT_RULES))).to_pylist()
    of_refused = _by_row(reasons, pc.struct_field(pc.list_flatten(reasons), "rule"))
    of_refused |= {(row, name) for row, name in _marks(refused) if is_judged[row]}
    return dict(Counter(name for _, name in chain(of_refused, _marks(unbroken(parsed).rows))))


def _by_event(lines: Collected) -> Collected:
    """Return a row of silver for each event of parsed lines, as `events.by_event` does it in Spark."""
    import pyarrow  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    lists = lines.rows[EVENTS].combine_chunks()
    events = pc.list_flatten(lists)
    of_events = {field.name: pc.struct_field(events, field.name) for field in events.type}
    names = columns(SILVER, lines.columns)
    of_lines = lines.rows.select([name for name in names if name not in of_events]).take(pc.list_parent_indices(lists))
    first = {name: of_events[name] if name in of_events else of_lines[name] for name in names}
    return Collected(pyarrow.table({**first, **of_events}), lines.spark)


def _refused(parsed: Collected) -> Collected:
    import pyarrow.compute as pc  # noqa: PLC0415

    return parsed.where(pc.invert(_is_accepted(parsed)))


def _is_accepted(parsed: Collected) -> "pyarrow.ChunkedArray":
    import pyarrow.compute as pc  # noqa: PLC0415

    return pc.equal(pc.list_value_length(parsed.rows["reasons"]), 0)


def _marks(rows: "pyarrow.Table") -> set[tuple[int, str]]:
    import pyarrow.compute as pc  # noqa: PLC0415

    marks = rows[MARKS].combine_chunks()
    return _by_row(marks, pc.list_flatten(marks))


def _by_row(lists: "pyarrow.ListArray", values: "pyarrow.StringArray") -> set[tuple[int, str]]:
    """Return the values of each list, with its number; `values` are the lists' values, one after the other."""
    import pyarrow.compute as pc  # noqa: PLC0415

    return set(zip(pc.list_parent_indices(lists).to_pylist(), values.to_pylist(), strict=True))
