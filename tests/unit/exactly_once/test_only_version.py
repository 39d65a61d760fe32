"""A batch of Spark on S3 is committed only as the version after the one that was looked at; elsewhere Delta decides."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelake.common.spark.rows import SparkRows
from oncelake.exactly_once.write import no_fence
from oncelake.exactly_once.writers import MergeSql
from oncelake.exactly_once.writers import spark as spark_writer
from oncelake.exactly_once.writers.spark import SparkTable
from tests.support.memory import metadata

AT = "s3://bucket/lake/silver/access_log"
NEXT = {
    "spark.databricks.delta.autoCompact.enabled": "false",
    "spark.oncelake.next.//bucket/lake/silver/access_log": "5",
}


class Conf(dict[str, str]):
    """The settings of a session."""

    def set(self, key: str, value: str) -> None:
        self[key] = value

    def unset(self, key: str) -> None:
        del self[key]


@pytest.mark.parametrize(
    ("at", "expected"),
    [(AT, NEXT), ("/lake/silver/access_log", {}), ("`main`.`silver`.`t`", {})],
    ids=["s3", "local", "catalog"],
)
@pytest.mark.parametrize("how", ["append", "merge"])
def test_a_batch_on_s3_is_the_next_version_or_a_conflict(
    at: str, expected: dict[str, str], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf, during = Conf(), list[dict[str, str]]()
    rows = SparkRows(cast(Any, SimpleNamespace(sparkSession=SimpleNamespace(conf=conf))))
    monkeypatch.setattr(spark_writer, how, lambda *_, **__: during.append({**conf}))
    table = SparkTable(at)
    change = table.append(rows) if how == "append" else table.merge(rows, lambda _: MergeSql("true", {}))
    assert change(metadata(0), lambda _=None: 4, no_fence)
    assert during == [expected]
    assert conf == {}
