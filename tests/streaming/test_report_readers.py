"""The report has the same facts whether Spark reads the tables or not, and starts no Spark that it does not need."""

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from oncelake.common.table_rows import TableRows
from oncelake.engine.chain import Chain
from oncelake.observe.report.collect import LEFT_OUT, Collector, prove
from oncelake.observe.report.facts import Facts
from oncelake.observe.report.late import late_lines
from oncelake.observe.report.period import Period
from oncelake.observe.report.remembered import Remembered
from tests.support.house import House, events
from tests.support.several import Several

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("report_readers")]

FORM = {
    "json": {"time": "at", "level": "level", "message": "message"},
    "time": "iso8601",
    "columns": {"amount": "decimal(38,12)", "status": "int"},
}
TRAIL = {**{key: FORM[key] for key in ("json", "time")}, "each": "$.Records[*]"}
GOLD: dict[str, Any] = {
    "log_volume": {"every": "1 minute", "by": {"level": "level"}, "measures": {"log_count": "count"}},
    "amounts": {
        "every": "1 hour",
        "by": {"user": "fields['user']", "status": "status"},
        "measures": {
            "lines": "count",
            "failed": "count where level = 'ERROR'",
            "share": "rate where level = 'ERROR'",
            "most": "max(amount)",
            "total": "sum(cast(amount AS DECIMAL(28,3)))",
            "mean": "avg(cast(amount AS DECIMAL(18,3)))",
            "highest": "max(try_cast(fields['x'] AS DOUBLE))",
            "lowest": "min(try_cast(fields['x'] AS DOUBLE))",
        },
    },
    # what DuckDB does not add up, or would write otherwise
    "others": {
        "every": "1 hour",
        "by": {"x": "try_cast(fields['x'] AS DOUBLE)"},
        "measures": {"number": "count", "half": "percentile(amount, 0.5)", "users": "approx_distinct(fields['user'])"},
    },
    "days": {"every": "1 day", "zone": "Europe/Berlin", "measures": {"lines": "count"}},
}
START = datetime(2026, 11, 20, 10, tzinfo=UTC)
PERIOD = Period(START, datetime(2026, 11, 20, 11, tzinfo=UTC))
OLD = (b"1969-12-31 23:59:59 ERROR old", b"1968-02-29 00:00:00 INFO older", b"1970-01-01 00:00:00 INFO zero")


def never() -> SparkSession:
    raise AssertionError("Spark is not needed")


def sold(minute: int, **values: Any) -> bytes:
    at = f"2026-11-20T10:{minute:02}:59.999999Z"
    return json.dumps(
        {"at": at, "level": "ERROR" if minute % 3 else "INFO", "message": f"sold {minute}", **values}
    ).encode()


def first(house: House) -> None:
    house.write(
        "shop/1.log", *(sold(n, user=f"u{n % 7}", amount=n / 8, status=200 + n % 2, x=n / 3) for n in range(21))
    )
    house.write("app/1.log", *OLD, b"2026-11-20 10:30:00 WARN one by ann@example.org", b"no line", b"")
    house.write("trail/1.log", b'{"Records": [%s, %s]}' % (sold(5), sold(6)), b'{"Records": [%s]}' % sold(7))


def second(house: House) -> None:
    wide = {"amount": "90071992547409931270000000.000000000001", "x": "NaN"}
    house.write(
        "shop/2.log", sold(40, **wide), sold(41, x="-0.0"), sold(42, x="NaN"), sold(2, user="u1", x="Infinity"), b"{"
    )
    house.write("app/2.log", b"2026-11-20 10:00:01 ERROR late", b"2026-11-20 09:10:00 ERROR later", *OLD)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Several:
    house = Several.at(tmp_path_factory.mktemp("readers"))
    formats = {"shop": FORM, "trail": TRAIL}
    for name, form in formats.items():
        (house.root / f"{name}.yaml").write_text(yaml.safe_dump(form))
    house.declare(
        app={"path": str(house.logs / "app"), "mask": {"rules": [{"find": "email", "action": "drop"}]}},
        **{name: {"path": str(house.logs / name), "format": str(house.root / f"{name}.yaml")} for name in formats},
    )
    conf = yaml.safe_load(house.conf.read_text())
    conf |= {"gold": GOLD, "silver": {"earliest": "1900-01-01T00:00:00Z"}}
    house.conf.write_text(yaml.safe_dump(conf, sort_keys=False))
    for fill in (first, second):
        fill(house)
        house.run(spark)
    return house


def facts(chain: Chain, rows: TableRows, period: Period | None = None, *, proven: bool = False) -> Facts:
    """Return the facts without the moment at which they were collected."""
    proof = prove(chain, rows) if proven else LEFT_OUT
    shown = Collector(chain, TableRows(rows.spark, rows.with_spark), period).facts(proof)
    return replace(shown, at_ms=0, proof=replace(shown.proof, at_ms=0, seconds=0))


@pytest.mark.parametrize("period", [None, PERIOD], ids=["all", "period"])
def test_every_fact_is_the_same_by_both_readers(lake: Several, spark: SparkSession, period: Period | None) -> None:
    chain, by_both = lake.chain(spark), []
    for with_spark in (False, True):
        shutil.rmtree(lake.lake / "_proofs", ignore_errors=True)
        rows = TableRows(lambda: spark, with_spark=with_spark)
        by_both.append(facts(chain, rows, period, proven=period is None))
    without, by_spark = (shown.to_dict() for shown in by_both)
    for name, part in without.items():
        assert part == by_spark[name], name
    shown = by_both[0]
    assert dict(shown.troubles) == {}
    assert {measure.measure for measure in shown.measures} >= {"most", "mean", "highest", "half", "users"}
    assert shown.late is not None
    assert shown.late.lines == 21 + 4 + 3 + 4 + 5
    assert (shown.rows("silver.access_log"), shown.lines_of("silver.access_log")) == (shown.late.lines, 36)
    assert dict(shown.masked) == {"email": 1}
    assert 6 <= shown.late.late < shown.late.lines, (
        "those of the second run, but for two, and of the later first source"
    )
    assert {reason.rule for reason in shown.reasons} == {"pattern", "blank"}
    if period is None:
        assert (shown.proof.made, shown.proof.holds) == ("made", True)
    else:
        assert shown.period is not None
        assert shown.period.peaks


def test_no_spark_starts_for_a_lake_that_needs_none(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path)
    house.write("a.log", *OLD[2:], b"2026-11-20 10:00:01 ERROR late", b"no line")
    house.run(spark)
    shown = facts(house.chain(), TableRows(never), PERIOD)
    assert dict(shown.troubles) == {}
    assert shown.period is not None
    assert [message.trace for peak in shown.period.peaks for message in peak.messages] == [
        f"oncelake trace '{house.logs}/a.log:2026-11-20 10:00:01 ERROR late'"
    ]
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    (said,) = events(house.call("report", "--json"))
    assert (said["proof"]["made"], said["troubles"], said["versions"]["Java"]) == ("made", {}, "not found")


def test_a_page_that_follows_a_lake_reads_each_data_file_of_silver_once(
    lake: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, asked, without_spark = lake.chain(), list[str](), TableRows.without_spark

    def noted(self: TableRows, text: str, *given: Any, **values: Any) -> Any:
        asked.append(text)
        return without_spark(self, text, *given, **values)

    monkeypatch.setattr(TableRows, "without_spark", noted)
    remembered = Remembered()
    look = late_lines(chain, TableRows(never), remembered)
    assert asked, "some lines are late"
    before = len(asked)
    assert late_lines(chain, TableRows(never), remembered) == look
    assert len(asked) == before
