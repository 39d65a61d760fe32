"""A suite splits rows in the stream, a gate holds batches back, an audit checks tables; nothing is lost or repeated."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from oncelake.common.errors import ConfigError, StageError
from oncelake.common.lake import SILVER
from oncelake.common.table_rows import TableRows
from oncelake.engine import make_table
from oncelake.engine.graph import Target
from oncelake.engine.preflight import preflight
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from oncelake.observe.audit.audited import Audit
from oncelake.quality.reasons import reasons
from oncelake.silver import spark_count
from oncelake.silver.local_split import LocalSplit
from oncelake.silver.transform import accepted
from tests.support.house import House

pytestmark = pytest.mark.spark

TIME = b"2017-07-30 14:09:0"
LINES = [
    TIME + b"0 ERROR order 1 failed",
    TIME + b"1 ERROR order two failed",
    TIME + b"2 INFO",
    TIME + b"3 WARN order 3 \xf0\x9f\x98\x80",
    TIME + b"4 INFO order x of a customer whose name is long",
    b"no line of this format",
]
NUMBERED: dict[str, Any] = {
    "type": "expect_column_values_to_match_regex",
    "kwargs": {"column": "message", "regex": r"^order \d"},
    "meta": {"rule": "numbered"},
}
SHORT: dict[str, Any] = {
    "type": "expect_column_value_lengths_to_be_between",
    "kwargs": {"column": "message", "max_value": 20},
    "meta": {"rule": "short"},
}
SHORT_WARNING = {**SHORT, "severity": "warning"}


def expect(house: House, *expectations: dict[str, Any], table: str = "silver.access_log") -> None:
    """Write a suite, and configure the house to use it."""
    directory = house.root / "expectations"
    directory.mkdir(exist_ok=True)
    (directory / f"{table}.json").write_text(json.dumps({"name": table, "expectations": expectations}))
    setting = f"quality.expectations={directory}"
    if setting not in house.sets:
        house.sets.append(setting)


def refused(house: House) -> dict[bytes, list[str]]:
    return {row["value"]: [reason["rule"] for reason in row["reasons"]] for row in house.rows("silver/quarantine")}


def told(house: House) -> dict[str, Any]:
    """Return what the last commit to quarantine records about its batch."""
    metadata = DeltaLog(LocalFiles(), str(house.lake / "silver/quarantine")).state().metadata
    assert metadata is not None
    return dict(metadata.quality)


def test_rules_quarantine_and_mark_rows(house: House, spark: SparkSession) -> None:
    expect(house, {**NUMBERED, "kwargs": {**NUMBERED["kwargs"], "mostly": 0.1}}, SHORT)
    house.write("a.log", *LINES)
    house.run(spark)
    assert refused(house) == {
        LINES[1]: ["numbered"],
        LINES[2]: ["numbered"],
        LINES[4]: ["numbered", "short"],
        LINES[5]: ["pattern"],
    }
    broken = next(row["reasons"] for row in house.rows("silver/quarantine") if row["value"] == LINES[4])
    assert broken[0] == {"rule": "numbered", "column": "message", "value": LINES[4][25:].decode()}
    assert told(house) == {"lines": 6, "rules": {"numbered": 3, "short": 1, "pattern": 1}, "warned": []}
    listed = reasons(TableRows(lambda: spark), f"{house.lake}/silver/quarantine")
    assert [(reason.rule, reason.column, reason.lines) for reason in listed] == [
        ("numbered", "message", 3),
        ("pattern", "value", 1),
        ("short", "message", 1),
    ]
    assert listed[1].samples == ("a.log:no line of this format",)
    assert {line.partition(":")[0] for line in listed[0].samples} == {"a.log"}
    assert sum(house.errors().values()) == 1
    assert house.doubts(spark) == []


def test_a_warning_marks_a_row_that_counts(house: House, spark: SparkSession) -> None:
    expect(house, {**SHORT_WARNING, "meta": {"rule": "lines"}})  # a name that the batch uses for a count of its own
    house.write("a.log", *LINES[:5])
    house.run(spark)
    marked = {row["message"]: row["warnings"] for row in house.rows("silver/access_log")}
    assert len(marked) == 5
    assert marked["order two failed"] is None
    assert marked["order x of a customer whose name is long"] == ["lines"]
    assert house.size("silver/quarantine") == 0
    assert told(house) == {"lines": 5, "rules": {"lines": 1}, "warned": []}
    assert house.doubts(spark) == []
    assert house.run(spark) == []


def test_a_batch_that_lacks_only_its_quality_is_completed(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect(house, NUMBERED, SHORT_WARNING)
    house.write("a.log", *LINES)
    with monkeypatch.context() as patched:
        patched.setattr(LocalSplit, "refused", lambda _: 1 / 0)
        with pytest.raises(StageError, match="silver stopped in batch 0"):
            house.run(spark)
    assert (house.size("silver/access_log"), house.size("silver/quarantine")) == (2, 0)
    house.run(spark)
    assert house.size("silver/quarantine") == 4
    assert told(house) == {"lines": 6, "rules": {"pattern": 1, "numbered": 3, "short": 1}, "warned": []}
    assert house.doubts(spark) == []


@pytest.mark.parametrize(
    ("sets", "suite", "said"),
    [
        (["quality.gate.quarantined.fail=0.1"], [], r"1 of 6 lines \(16.7 %\) is refused, the limit is 10.0 %"),
        (["quality.gate.age.fail=1 hour"], [], "the newest line is from 2017-07-30 14:09:04"),
        ([], [{**NUMBERED, "kwargs": {**NUMBERED["kwargs"], "mostly": 0.5}}], "numbered: 3 of 5 rows .* 50.0 % must"),
        (
            [],
            [
                {
                    "type": "expect_column_distinct_values_to_be_in_set",
                    "kwargs": {"column": "level", "value_set": ["INFO", "ERROR"]},
                }
            ],
            "1 row has an unexpected level: 'WARN'",
        ),
        (
            [],
            [{"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 6}}],
            "5 rows are accepted, expected: at least 6",
        ),
    ],
)
def test_a_batch_over_a_limit_is_held_back(
    house: House, spark: SparkSession, sets: list[str], suite: list[dict[str, Any]], said: str
) -> None:
    house.write("a.log", *LINES)
    house.sets += sets
    expect(house, *suite)
    with pytest.raises(StageError, match=rf"silver stopped in batch 0: the gate refused batch 0\. .*{said}"):
        house.run(spark)
    assert house.versions()["silver/access_log"] == house.versions()["silver/quarantine"] == 0


def test_a_held_back_batch_continues_after_the_rule_is_repaired(house: House, spark: SparkSession) -> None:
    house.write("a.log", TIME + b"0 INFO order 1")
    house.run(spark)
    house.write("b.log", *LINES)
    before, kept = house.versions(), list(house.sets)
    expect(house, {**NUMBERED, "kwargs": {**NUMBERED["kwargs"], "mostly": 0.5}})
    for _ in range(2):
        with pytest.raises(StageError, match=r"silver stopped in batch 1: the gate refused batch 1"):
            house.run(spark)
        after = house.versions()
        assert after.pop("bronze/access_log") == before["bronze/access_log"] + 1
        assert after.items() <= before.items()
    house.sets = kept
    house.run(spark)
    house.must_be([TIME + b"0 INFO order 1", *LINES])
    assert house.doubts(spark) == []


def test_a_gate_that_holds_a_batch_back_names_lines(house: House, spark: SparkSession) -> None:
    house.sets.append("quality.gate.quarantined.fail=0")
    house.write("a.log", *LINES)
    with pytest.raises(StageError, match=r"pattern 1\. Some of the refused lines: .*a\.log:'no line of this format'"):
        house.run(spark)


def test_a_gate_for_first_and_large_batches_lets_small_ones_pass(house: House, spark: SparkSession) -> None:
    house.sets += ["quality.gate.quarantined.fail=0.5", "quality.gate.quarantined.fail_from=4"]
    house.write("a.log", LINES[0], LINES[5], b"neither", b"")
    with pytest.raises(StageError, match=r"3 of 4 lines \(75\.0 %\) are refused.*Rules broken: pattern 2, blank 1\. "):
        house.run(spark)
    house.sets[-1] = "quality.gate.quarantined.fail=0.8"
    house.run(spark)
    house.sets[-1] = "quality.gate.quarantined.fail_from=4"
    house.write("b.log", LINES[5], b"neither", b"x")
    house.run(spark)
    house.write("c.log", LINES[5], b"neither", b"x", b"y")
    with pytest.raises(StageError, match=r"the gate refused batch 2\. .*4 of 4 lines"):
        house.run(spark)


def test_a_gate_that_warns_is_recorded(house: House, spark: SparkSession) -> None:
    house.sets += ["quality.gate.quarantined.warn=0.1", "quality.gate.age.warn=1 hour"]
    expect(house)
    house.write("a.log", *LINES[:5])
    (report,) = (batch for batch in house.run(spark) if batch.stage == "silver")
    assert len(report.warned) == 1
    assert report.warned[0].startswith("quality.gate.age.warn: the newest line is from 2017-07-30")
    assert told(house) == {"lines": 5, "rules": {}, "warned": ["quality.gate.age.warn"]}
    assert house.doubts(spark) == []


@pytest.mark.parametrize(
    ("expectation", "said"),
    [
        (
            {**SHORT, "kwargs": {"column": "text", "max_value": 1}},
            "silver.access_log has no column 'text'; it has",
        ),
        ({**NUMBERED, "kwargs": {"column": "message", "regex": "(a"}}, r"Unclosed group .*'\(a'; correct the regular"),
        (
            {"type": "expect_column_values_to_be_between", "kwargs": {"column": "message", "min_value": 1}},
            "message is not a number, a date or a time, so it cannot be compared with 1",
        ),
        (
            {"type": "expect_column_values_to_be_of_type", "kwargs": {"column": "level", "type_": "LongType"}},
            "level is of type StringType, not LongType",
        ),
        ({**SHORT, "kwargs": {"column": "fields", "max_value": 1}}, "DATATYPE_MISMATCH"),
        ({**SHORT, "kwargs": {"column": "warnings", "max_value": 1}}, "the rules themselves write the column warnings"),
        (
            {"type": "expect_compound_columns_to_be_unique", "kwargs": {"column_list": ["level", "text"]}},
            "has no column 'text'",
        ),
    ],
)
def test_a_suite_that_cannot_be_checked_is_refused_before_the_start(
    house: House, spark: SparkSession, expectation: dict[str, Any], said: str
) -> None:
    expect(house, expectation)
    with pytest.raises(ConfigError, match=rf"silver\.access_log\.json: expectation 1 \(.*\): .*{said}"):
        preflight(spark, house.chain(spark))


def test_a_lake_of_an_earlier_version_gets_the_column(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.write("a.log", *LINES)
    chain = house.chain(spark)
    target = next(target for stage in chain.stages for target in stage.writes if target.table == SILVER)
    earlier = StructType([field for field in target.schema(spark) if field.name != "warnings"])
    monkeypatch.setattr(spark_count, "accepted", lambda parsed, once=accepted: once(parsed).drop("warnings"))
    path = chain.lake.at(SILVER)
    spark.createDataFrame([], earlier).write.format("delta").save(path)

    def make_others(session: SparkSession, target: Target, *where: Any, make: Any = make_table.make_table) -> None:
        if target.table != SILVER:
            make(session, target, *where)

    house.sets.append("run.small_batch=0")
    with monkeypatch.context() as patched:
        patched.setattr(make_table, "make_table", make_others)
        house.run(spark)
    house.sets.remove("run.small_batch=0")
    monkeypatch.undo()
    assert "warnings" not in spark.read.format("delta").load(path).columns
    expect(house, SHORT_WARNING)
    house.write("b.log", *LINES)
    house.run(spark)
    house.must_be([*LINES, *LINES])
    assert sum(row["warnings"] is not None for row in house.rows("silver/access_log")) == 1
    assert house.doubts(spark) == []


def audit(
    house: House, spark: SparkSession, root: Path, table: str = "silver.access_log", *, new: bool = False
) -> Audit:
    (audited,), _ = house.lakehouse(spark).validate(table, new=new, docs=root)
    return audited


def test_an_audit_names_rows_and_is_recorded_once_for_each_version(
    house: House, spark: SparkSession, tmp_path: Path
) -> None:
    html = TIME + b"0 WARN <script>alert(1)</script>"
    house.write("a.log", *LINES, html)
    house.run(spark)
    unique = {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "message"}, "severity": "warning"}
    expect(house, NUMBERED, SHORT, {**unique, "meta": {"rule": "unique"}})
    first, again = (audit(house, spark, tmp_path / "audit") for _ in range(2))
    results = {result.rule: result for result in first.results}
    assert not first.holds
    assert {rule: (result.success, result.unexpected, result.rows) for rule, result in results.items()} == {
        "numbered": (False, 4, 6),
        "short": (False, 2, 6),
        "unique": (True, 0, 6),
    }
    assert sorted(results["short"].lines) == sorted(f"a.log:{line.decode()}" for line in (LINES[4], html))
    assert (first.recorded, again.recorded) == (True, False)
    assert house.size("quality/results") == 3
    pages = "".join(page.read_text() for page in (tmp_path / "audit").rglob("*.html"))
    assert "order x of a customer whose name is long" in pages
    assert "&lt;script&gt;alert(1)" in pages
    assert "<script>alert(1)" not in pages
    house.write("b.log", *LINES)
    house.run(spark)
    third = audit(house, spark, tmp_path / "audit", new=True)
    assert third.audited.from_version == first.audited.version
    assert {result.rule: result.rows for result in third.results} == {
        "numbered": 2,
        "short": 2,
        "unique": 2,
    }  # the suite has split the new ones
    assert house.size("quality/results") == 6
    assert house.doubts(spark) == []


def test_a_refusal_of_great_expectations_is_a_one_line_error(house: House, spark: SparkSession, tmp_path: Path) -> None:
    house.write("a.log", *LINES)
    house.run(spark)
    expect(house, {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "level", "minimum": 1}})
    with pytest.raises(ConfigError, match=r"silver\.access_log\.json: expectation 1 \(be_unique\(level\)\): "):
        audit(house, spark, tmp_path / "audit")
    assert not (house.lake / "quality").exists()
