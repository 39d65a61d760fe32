"""Recognize the repeats of a small batch's lines in this process, as `duplicates` does it in Spark."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

from oncelake.common.spark.rows import Collected
from oncelake.exactly_once.table_version import TableVersion
from oncelake.silver.duplicates import ORIGIN, WITHIN_SOURCE, near
from oncelake.silver.schema import DUPLICATES, EVENT_KEY, SOURCE, TWIN, columns
from oncelake.silver.settings import Deduplicate

if TYPE_CHECKING:
    import pyarrow

# Keys of silver's rows are looked up among the batch's for this many rows at once.
AT_ONCE = 262_144
_WHO = ("log_time", *ORIGIN)


def split(accepted: Collected, before: TableVersion, declared: Deduplicate) -> tuple[Collected, Collected]:
    """Split silver's rows of a batch into those that stay and the repeats, which get the columns of their table.

    Args:
        accepted: the rows that broke no rule, with all columns of parsed rows.
        before: silver before the batch, opened by delta-rs.
        declared: how repeats are recognized.
    """
    import pyarrow  # noqa: PLC0415 - a run that collects nothing need not have it
    import pyarrow.compute as pc  # noqa: PLC0415

    rows = accepted.rows.append_column("_row", pyarrow.array(range(accepted.rows.num_rows), pyarrow.int64()))
    lines = rows.filter(pc.is_valid(rows[EVENT_KEY]))
    stored = _stored_near(before, lines, declared) if lines.num_rows else _who(lines)
    counts = pc.value_counts(lines[EVENT_KEY].combine_chunks())
    several = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    suspects = pyarrow.concat_arrays([several, stored[EVENT_KEY].combine_chunks()])
    # guard: collected-repeats-by-arrival
    lines = _by_arrival(lines.filter(pc.is_in(lines[EVENT_KEY], value_set=suspects)))
    twins = dict(_twins(stored, lines, declared.window))
    is_repeat = pc.is_in(rows["_row"], value_set=pyarrow.array(twins.keys(), pyarrow.int64()))
    repeats = rows.filter(is_repeat)
    known = pyarrow.concat_tables([stored, _who(lines)])
    who = known.take(pyarrow.array([twins[row] for row in repeats["_row"].to_pylist()], pyarrow.int64()))
    fields = [who[name].combine_chunks() for name in _WHO]
    repeats = repeats.append_column(TWIN.name, pyarrow.StructArray.from_arrays(fields, names=[*_WHO]))
    unique = accepted.where(pc.invert(is_repeat))
    return unique, Collected(repeats, accepted.spark).select(columns(DUPLICATES, repeats.column_names))


def _stored_near(before: TableVersion, lines: "pyarrow.Table", declared: Deduplicate) -> "pyarrow.Table":
    """Return silver's rows with a key of these lines and a time near them, in the order in which they arrived.

    The keys alone are read first, because few files hold one of them.
    """
    import pyarrow  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    times = pc.unique(pc.cast(lines["log_time"], pyarrow.int64())).to_pylist()
    files = before.files("log_time", near({at // declared.window for at in times}, declared.window))
    keys = pc.unique(lines[EVENT_KEY])
    names: set[str] = set()
    for part in _parts(files.scanner(columns=[EVENT_KEY, "__filename"]).to_batches()):
        names.update(pc.unique(part.filter(pc.is_in(part[EVENT_KEY], value_set=keys))["__filename"]).to_pylist())
    present = [name for name in (EVENT_KEY, *_WHO) if name in files.schema.names]
    tables = [
        fragment.to_table(schema=files.schema, columns=present)
        for fragment in files.get_fragments()
        if fragment.path in names
    ]
    if not tables:
        return _who(lines.slice(0, 0))
    rows = pyarrow.concat_tables(tables)
    rows = rows.filter(pc.is_in(rows[EVENT_KEY], value_set=keys))
    return _who(_by_arrival(rows)).cast(_who(lines).schema)


def _parts(batches: Iterator["pyarrow.RecordBatch"]) -> Iterator["pyarrow.Table"]:
    import pyarrow  # noqa: PLC0415

    waiting: list[pyarrow.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= AT_ONCE:
            yield pyarrow.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pyarrow.Table.from_batches(waiting)


def _who(rows: "pyarrow.Table") -> "pyarrow.Table":
    """Return the columns that identify rows, and their keys."""
    import pyarrow  # noqa: PLC0415

    if SOURCE.name not in rows.column_names:
        rows = rows.append_column(SOURCE.name, pyarrow.nulls(rows.num_rows, pyarrow.string()))
    return rows.select([EVENT_KEY, *_WHO])


def _by_arrival(rows: "pyarrow.Table") -> "pyarrow.Table":
    """Return rows in the order in which they arrived; nothing is before something, as in Spark."""
    import pyarrow  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    of_file = rows["file"]
    if "file_id" in rows.column_names:
        of_file = pc.if_else(pc.is_null(rows["file_id"]), of_file, None)
    rows = rows.append_column("of_file", of_file)
    names = [name for name in ("ingested_at", SOURCE.name, *WITHIN_SOURCE) if name in rows.column_names]
    values = [
        pc.cast(rows[name], pyarrow.int64()) if pyarrow.types.is_timestamp(rows[name].type) else rows[name]
        for name in names
    ]
    keys = [*zip(*(column.to_pylist() for column in values), strict=True)]
    order = sorted(range(rows.num_rows), key=lambda at: [(value is not None, value) for value in keys[at]])
    return rows.drop_columns("of_file").take(pyarrow.array(order, pyarrow.int64()))


def _twins(stored: "pyarrow.Table", lines: "pyarrow.Table", window: int) -> Iterator[tuple[int, int]]:
    """Yield for each repeat the number of its row, and the place of its twin among silver's rows and then the lines."""
    lines_by_key: dict[bytes, list[tuple[int, int]]] = {}
    for place, (key, at) in enumerate(_keys_and_times(stored)):
        _keep(lines_by_key, key, (at, place))
    numbers = lines["_row"].to_pylist()
    for number, (key, at) in enumerate(_keys_and_times(lines)):
        candidates = lines_by_key.get(key, [])
        first, last = (bisect_left(candidates, (end, -1)) for end in (at - window, at + window + 1))
        if first < last:  # guard: collected-repeat-within-window
            yield numbers[number], min(place for _, place in candidates[first:last])
        else:
            _keep(lines_by_key, key, (at, stored.num_rows + number))


def _keep(lines_by_key: dict[bytes, list[tuple[int, int]]], key: bytes, line: tuple[int, int]) -> None:
    """Add a line to those of its key, which are in the order of their times."""
    of_key = lines_by_key.setdefault(key, [])
    of_key.insert(bisect_left(of_key, line), line)


def _keys_and_times(rows: "pyarrow.Table") -> Iterator[tuple[bytes, int]]:
    import pyarrow  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    times = pc.cast(rows["log_time"], pyarrow.int64()).to_pylist()
    return zip(rows[EVENT_KEY].to_pylist(), times, strict=True)
