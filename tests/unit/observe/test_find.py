"""A line of a masked source is named to Spark by its hash alone, also when DuckDB fails at the query."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pyarrow
import pytest

from oncelake.common.errors import OncelakeError
from oncelake.common.table_rows import SparkNeededError
from oncelake.observe.trace.find import BronzeRows, FileLine, Masks, find

RAW, MASKED = b"mail of ada@example.org", b"mail of ***"


@dataclass
class Rows:
    """A table of one file that DuckDB can list, and that only Spark can search.

    Attributes:
        seen: the values that Spark has seen.
    """

    seen: list[Any] = field(default_factory=list)

    def query(self, text: str, at: str, *, secret: bool, **values: Any) -> pyarrow.Table:
        if values and secret:
            raise SparkNeededError
        self.seen += values.values()
        if "count(*)" in text:
            return pyarrow.table({"rows": [3]})
        return pyarrow.table({"file": [] if values else ["file:///logs/app.log"]})


def test_spark_sees_no_text_that_a_rule_hides() -> None:
    rows, rule = Rows(), cast(Any, SimpleNamespace(value=lambda line: line.replace(RAW, MASKED)))
    with pytest.raises(OncelakeError) as raised:
        find(BronzeRows(cast(Any, rows), "/lake"), FileLine(f"app.log:{RAW.decode()}"), Masks([rule]))
    assert rows.seen
    assert b"ada" not in b"".join(value if isinstance(value, bytes) else str(value).encode() for value in rows.seen)
    assert str(raised.value) == "no line of file:///logs/app.log is 'mail of ***'; bronze has 3 lines of it"


def test_without_rules_spark_answers_in_the_same_query() -> None:
    rows = Rows()
    with pytest.raises(OncelakeError, match="bronze has 3 lines of it"):
        find(BronzeRows(cast(Any, rows), "/lake"), FileLine(f"app.log:{RAW.decode()}"))
    assert RAW in rows.seen
