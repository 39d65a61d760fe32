"""A line with many events is a row for each, or one row of quarantine; what is read in an event stands in the event."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
import yaml
from pyspark.sql import Row
from pyspark.sql import functions as F

from oncelake.common.spark.collect import SmallBatches
from oncelake.quality.expectations import InSet
from oncelake.quality.gate import DistinctInSet, Expected, Mostly
from oncelake.quality.suite import Rule, Severity
from oncelake.silver import collected
from oncelake.silver.parsing.events import by_event
from oncelake.silver.parsing.format import LogFormat
from oncelake.silver.parsing.parser import Parser
from oncelake.silver.rules import Silver
from oncelake.silver.transform import TimeLimits, accepted, quarantined
from tests.support.bronze_rows import BronzeOf
from tests.support.places import ROOT

pytestmark = pytest.mark.spark

AT = "2017-07-30T14:09:08Z"
KEYS = {"time": "time", "level": "level", "message": "message"}
EACH: dict[str, Any] = {"json": KEYS, "time": "iso8601", "default_level": "INFO", "each": "$.Records[*]"}
TYPED = {
    "price": "decimal(20,2)",
    "user_id": "string from $.user.id",
    "status": {"type": "int", "misfit": "quarantine"},
    "size": "int",
}


def event(**more: Any) -> dict[str, Any]:
    return {"time": AT, **more}


def line(*events: Any, **outer: Any) -> str:
    return json.dumps({**outer, "Records": list(events)}, separators=(",", ":"))


def silver_of(rules: list[Rule] | None = None, formats: Mapping[str, Any] | None = None, **more: Any) -> Silver:
    declared = formats or {"access_log": {**EACH, **more}}
    read = {name: Parser(LogFormat.model_validate(each)) for name, each in declared.items()}
    return Silver(read, TimeLimits(), rules or [], named=len(read) > 1)


def rows(bronze_of: BronzeOf, silver: Silver, *lines: str | bytes | None) -> list[Row]:
    found = accepted(silver.parse(bronze_of(list(lines)))).collect()
    return sorted(found, key=lambda row: (row["offset"], row["event_index"] or 0))


def refusals(bronze_of: BronzeOf, silver: Silver, *lines: str | bytes | None) -> list[list[tuple[str, str]]]:
    found = quarantined(silver.parse(bronze_of(list(lines)))).orderBy("offset").collect()
    return [[(each["rule"], each["value"]) for each in row["reasons"]] for row in found]


def test_each_event_is_a_row_with_its_own_time_level_message_and_columns(bronze_of: BronzeOf) -> None:
    one = event(level="error", message="a", price=1.10, user={"id": "ann"}, status="404", tags=["x", 1])
    found = rows(bronze_of, silver_of(columns=TYPED), line(one, event(message="b")), line(event(time="2017-07-31")))
    assert [(row["event_index"], row["event_count"]) for row in found] == [(0, 2), (1, 2)]
    assert [(row["level"], row["message"], row["offset"]) for row in found] == [("ERROR", "a", 0), ("INFO", "b", 0)]
    assert [row["log_time"].astimezone(UTC) for row in found] == [datetime(2017, 7, 30, 14, 9, 8, tzinfo=UTC)] * 2
    assert (found[0]["price"], found[0]["user_id"], found[0]["status"]) == (Decimal("1.10"), "ann", 404)
    assert found[0]["fields"] == {
        "price": "1.1",
        "user": '{"id":"ann"}',
        "status": "404",
        "tags": '["x",1]',
    }


def test_numbers_of_an_event_keep_every_digit_and_its_text_every_character(bronze_of: BronzeOf) -> None:
    text = (
        '{"Records" : [ {"time":"' + AT + '","n":9007199254740993.0,"e":1E400,"o":{ "b" : 1.50 },"s":"a\\u00e9\\n"} ]}'
    )
    (found,) = rows(bronze_of, silver_of(), text)
    assert found["fields"] == {"n": "9007199254740993.0", "e": "1E400", "o": '{ "b" : 1.50 }', "s": "aé\n"}


def test_the_other_keys_of_the_line_become_fields_of_each_event(bronze_of: BronzeOf) -> None:
    silver = silver_of(each="$['log events'][*]", json={**KEYS, "time": "timestamp"}, time="epoch_millis")
    text = json.dumps(
        {
            "owner": "123",
            "id": "outer",
            "log events": [{"timestamp": 1501423748000, "id": "e0", "message": "m"}, {"timestamp": 1501423748001}],
            "timestamp": "of the line",
            "n": 1.50,
        }
    )
    first, second = rows(bronze_of, silver, text)
    assert first["fields"] == {"owner": "123", "outer_id": "outer", "id": "e0", "timestamp": "of the line", "n": "1.5"}
    assert second["fields"] == {"owner": "123", "id": "outer", "timestamp": "of the line", "n": "1.5"}


def test_a_line_can_be_the_list_of_events(bronze_of: BronzeOf) -> None:
    found = rows(bronze_of, silver_of(each="$[*]"), json.dumps([event(a=1), event(a=2)]))
    assert [(row["event_index"], row["fields"]) for row in found] == [(0, {"a": "1"}), (1, {"a": "2"})]


NO_EVENTS: list[tuple[str | None, str, str | None]] = [
    ("{}", "each", "no key Records"),
    ('{"Records":[]}', "each", "[]"),
    ('{"Records":null}', "each", "null"),
    ('{"Records":{"a":1}}', "each", '{"a":1}'),
    (line(event(), 7, "x"), "each", "event 1: 7"),
    (line(event(), None), "each", "event 1: null"),
    (line(event(), [event()]), "each", f'event 1: [{{"time":"{AT}"}}]'),
    (f'{{"Records":[{json.dumps(event())}],"Records":[{json.dumps(event())}]}}', "each", "two keys Records"),
    ("[1]", "each", "[1]"),
    ("7", "each", "7"),
    (line(event()) + " ]", "pattern", line(event()) + " ]"),
    (line(event()) + "{}", "pattern", line(event()) + "{}"),
    (line(event())[:-1], "pattern", line(event())[:-1]),
    ('{"Records":[{"time":}]}', "pattern", '{"Records":[{"time":}]}'),
    (" ", "pattern", " "),
    ("", "blank", ""),
    (None, "null_value", None),
]


def test_a_line_without_a_list_of_objects_is_refused_by_name(bronze_of: BronzeOf) -> None:
    lines = [text for text, _, _ in NO_EVENTS]
    assert rows(bronze_of, silver_of(), *lines) == []
    assert refusals(bronze_of, silver_of(), *lines) == [[(rule, value)] for _, rule, value in NO_EVENTS]


def test_an_event_that_breaks_a_rule_sends_its_whole_line_to_quarantine_as_one_row(bronze_of: BronzeOf) -> None:
    bad = line(event(message="good"), event(level="LOUD"), event(time="never"), event(level="MUTE", status=1))
    assert [row["offset"] for row in rows(bronze_of, silver_of(), bad, line(event()))] == [1]
    assert refusals(bronze_of, silver_of(), bad, line(event())) == [
        [("level", "event 1: LOUD"), ("time", "event 2: never")],
    ]
    many = line(*(event(status="x") for _ in range(500)))
    assert refusals(bronze_of, silver_of(columns=TYPED), many) == [[("column_status", "event 0: x")]]


def test_quarantine_keeps_the_bytes_of_the_line(bronze_of: BronzeOf) -> None:
    bad = line(event(), event(level="LOUD"), owner="\u00e9").encode()
    (found,) = quarantined(silver_of().parse(bronze_of([bad]))).collect()
    assert bytes(found["value"]) == bad


def rule(column: str, values: list[str | int], severity: Severity) -> Rule:
    return Rule(
        id=f"{column}_known",
        type="expect_column_values_to_be_in_set",
        severity=severity,
        expectation=InSet(column=column, value_set=tuple(values)),
    )


def test_rules_of_a_suite_see_the_events_and_mark_them_one_by_one(bronze_of: BronzeOf) -> None:
    rules = [rule("fields.app", ["shop"], "warning"), rule("message", ["ok", "odd"], "critical")]
    silver = silver_of(rules)
    text = line(event(message="ok"), event(message="odd", app="web"), app="shop")
    assert [row["warnings"] for row in rows(bronze_of, silver, text)] == [None, ["fields.app_known"]]
    assert refusals(bronze_of, silver, line(event(message="ok"), event(message="no"))) == [
        [("message_known", "event 1: no")],
    ]


def test_the_share_of_a_suite_is_one_of_lines_and_a_limit_on_values_one_of_events(bronze_of: BronzeOf) -> None:
    share = Mostly("share", "warn", 0.5, InSet(column="message", value_set=("ok",)))
    values = Expected("values", "warn", DistinctInSet(column="fields.app", value_set=("shop",)))
    silver = replace(silver_of([rule("message", ["ok"], "critical")]), gate=[share, values])
    ok = [event(message="ok", app="web")] * 10
    parsed = silver.parse(bronze_of([line(*ok, event(message="no")), line(*ok), "{}"]))
    (counted,) = parsed.agg(*silver.aggregates).collect()
    (measured,) = by_event(parsed).agg(*silver.measures).collect()
    assert counted.asDict().items() >= {"lines": 3, "refused": 2, "rule message_known": 1, "events": 10}.items()
    assert measured["judged share"] == 2
    assert measured["found values"][0] == 10


def test_a_small_batch_gives_the_rows_that_spark_gives(bronze_of: BronzeOf) -> None:
    silver = silver_of(columns=TYPED)
    lines = [line(event(a=1, status=5), event(a="b")), "broken", line(event(level="LOUD")), line(event(price=2.5))]
    parsed = silver.parse(bronze_of(lines))
    small = SmallBatches(1000, 2**20).collect(parsed)
    assert small is not None
    mine, theirs = collected.accepted(small), accepted(parsed)
    assert mine.columns == theirs.columns
    assert sorted(map(str, mine.frame().collect())) == sorted(map(str, theirs.collect()))
    assert collected.broken(small) == {"pattern": 1, "level": 1}
    assert collected.accepted(small.where(small.rows["offset"].is_null())).rows.num_rows == 0


def test_other_formats_of_the_lake_keep_one_row_for_each_line(bronze_of: BronzeOf) -> None:
    plain = {"json": KEYS, "time": "iso8601", "default_level": "INFO", "columns": {"zz": "int", "aa": "string"}}
    rules = [rule("event_count", [2], "warning")]
    silver = silver_of(rules, {"trail": {**EACH, "columns": {"size": "int", "bb": "string"}}, "app": plain})
    bronze = bronze_of([line(event(size=1), event(size=2)), json.dumps(event(zz=3, aa="x"))])
    bronze = bronze.withColumn("source", F.when(F.col("offset") == 0, "trail").otherwise("app"))
    found = sorted(accepted(silver.parse(bronze)).collect(), key=lambda row: (row["offset"], row["event_index"] or 0))
    names = ("source", "event_index", "event_count", "size", "zz", "aa")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("trail", 0, 2, 1, None, None),
        ("trail", 1, 2, 2, None, None),
        ("app", None, None, None, 3, "x"),
    ]
    assert {*found[0].asDict()} == {*silver.schema.fieldNames()}
    assert [row["warnings"] for row in found] == [None] * 3


def test_the_page_s_example_of_cloudtrail_is_read_as_the_page_says(bronze_of: BronzeOf) -> None:
    page = (ROOT / "docs/formats.md").read_text(encoding="utf-8").split("\n## Many events in a line\n")[1]
    declared, text = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)[0] for kind in ("yaml", "json"))
    head, _, *told = (line.strip("|").split("|") for line in page.split("\n") if line.startswith("|"))
    names = [name.strip() for name in head]
    silver = silver_of(formats={"access_log": yaml.safe_load(declared)})
    read = accepted(silver.parse(bronze_of([text.strip()], datetime(2026, 11, 26)))).orderBy("event_index").collect()
    found = [row.asDict() for row in read]
    for row in found:
        row["log_time"] = f"{row['log_time'].astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    said = [["" if row[name] is None else str(row[name]) for name in names] for row in found]
    assert said == [[cell.strip() for cell in row] for row in told[:2]]
    assert found[0]["service"] == "s3.amazonaws.com"
