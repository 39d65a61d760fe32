"""Summarize quarantine: the rules that lines broke, the number of lines for each, and samples."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from oncelake.common.table_rows import TableRows


@dataclass(frozen=True)
class Reason:
    """One reason why lines are in quarantine.

    Attributes:
        rule: the broken rule, from the log format or from silver's suite.
        column: the column that the rule checks.
        lines: how many lines broke it; a line can have several reasons.
        first: when the first of these lines was ingested, UTC.
        last: when the last of these lines was ingested, UTC.
        samples: the names of a few of these lines, in the form that `trace` accepts.
    """

    rule: str
    column: str
    lines: int
    first: datetime
    last: datetime
    samples: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the reason as a dictionary for JSON."""
        times = {"first": self.first.isoformat(), "last": self.last.isoformat()}
        return {**asdict(self), **times, "samples": list(self.samples)}


_QUERY = """
SELECT e.reason.rule AS rule, e.reason.column AS name, count(*) AS lines, unix_micros(min(e.ingested_at)) AS first,
    unix_micros(max(e.ingested_at)) AS last, min(e.line) AS least, any_value(e.line) AS some, max(e.line) AS greatest
FROM (
    SELECT explode(t.reasons) AS reason, t.ingested_at, struct(t.file, t.value, t.topic, t.partition, t.offset) AS line
    FROM {rows} t
) e
GROUP BY e.reason.rule, e.reason.column
ORDER BY lines DESC, rule, name
"""


def reasons(rows: TableRows, quarantine: str) -> list[Reason]:
    """Return the reasons in quarantine, the most frequent first, in one pass with a few lines of each in memory.

    Args:
        rows: answers queries over the lake's tables.
        quarantine: the place of quarantine.
    """
    return [
        Reason(
            row["rule"],
            row["name"],
            row["lines"],
            at_micros(row["first"]),
            at_micros(row["last"]),
            tuple(dict.fromkeys(_name(*row[sample]) for sample in ("least", "some", "greatest"))),
        )
        for row in rows.records(_QUERY, {"rows": (quarantine, None)})
    ]


def _name(file: str | None, value: bytes, topic: str, partition: int, offset: int) -> str:
    """Return the name of a line, as `line_of` does."""
    if file is None:
        return f"{topic}/{partition}/{offset}"
    return f"{file.rsplit('/', 1)[-1]}:{value.decode(errors='replace').split(chr(10), 1)[0]}"


def line_of(of_file: Column | None = None) -> Column:
    """Return the name of a row's line: `topic/partition/offset`, or `file:line`; of several lines, the first.

    Args:
        of_file: the name of a line from a file, for rows without the line itself (`value`).
    """
    if of_file is None:
        first = F.substring_index(F.make_valid_utf8(F.col("value").cast("string")), "\n", 1)
        of_file = F.concat(file_name(F.col("file")), F.lit(":"), first)
    return F.when(F.col("file").isNotNull(), of_file).otherwise(F.concat_ws("/", "topic", "partition", "offset"))


def file_name(path: Column) -> Column:
    """Return the last part of a path."""
    return F.element_at(F.split(path, "/"), -1)


def at_micros(micros: int) -> datetime:
    """Return the time of a number of microseconds since 1970, UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
