"""Every line is in silver or in quarantine, with the right time, level and reasons, whatever its content."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from oncelake.silver.parsing.format import LogFormat, load_format
from oncelake.silver.parsing.parser import Parser
from oncelake.silver.schema import QUARANTINE, SILVER
from oncelake.silver.transform import TimeLimits, accepted, parse, quarantined
from tests.support.bronze_rows import NOW, BronzeOf
from tests.support.places import FORMATS
from tests.support.spark_handles import optimized_plan

pytestmark = pytest.mark.spark

LIMITS = TimeLimits()
GENERAL = {"pattern": r"(?<time>.*?) (?<level>[A-Z]+)(?: (?<message>.*))?"}


def of(name: str, **changes: Any) -> Parser:
    shipped = load_format(name, [FORMATS])
    return Parser(LogFormat.model_validate(shipped.model_dump(by_alias=True, exclude_none=True) | changes))


@pytest.fixture(autouse=True, params=["true", "false"], ids=["ansi", "no-ansi"])
def _ansi(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    before = spark.conf.get("spark.sql.ansi.enabled", "true")
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield
    spark.conf.set("spark.sql.ansi.enabled", before or "true")


class Lines:
    """Bronze rows of some lines, parsed."""

    def __init__(self, bronze_of: BronzeOf, lines: Sequence[bytes | str | None], parser: Parser) -> None:
        self.bronze = bronze_of(lines)
        self.parsed = parse(self.bronze, parser, LIMITS)
        self.good: dict[int, Row] = {row.offset: row for row in accepted(self.parsed).collect()}
        self.bad: dict[int, Row] = {row.offset: row for row in quarantined(self.parsed).collect()}
        assert sorted([*self.good, *self.bad]) == list(range(len(lines)))

    def rules(self) -> list[tuple[str, ...]]:
        return [tuple(r.rule for r in self.bad[at].reasons) if at in self.bad else () for at in self.offsets()]

    def times(self) -> list[datetime | None]:
        return [self.good[at].log_time if at in self.good else None for at in self.offsets()]

    def offsets(self) -> range:
        return range(len(self.good) + len(self.bad))


def test_frames_have_the_schema_of_their_tables(spark: SparkSession, bronze_of: BronzeOf) -> None:
    lines = Lines(bronze_of, ["2017-07-30 14:09:08 ERROR some message", "broken"], of("default"))
    silver = spark.createDataFrame(
        [(datetime(2017, 7, 30, 14, 9, 8), "ERROR", "some message", {}, "alog", 0, 0, None, NOW, None)], SILVER
    )
    reasons = [("pattern", "value", "broken")]
    quarantine = spark.createDataFrame([(b"broken", "alog", 0, 1, *(None,) * 6, NOW, None, None, reasons)], QUARANTINE)
    assert_df_equality(accepted(lines.parsed), silver, ignore_nullable=True, ignore_metadata=True)
    assert_df_equality(quarantined(lines.parsed), quarantine, ignore_nullable=True, ignore_metadata=True)


DEFAULT_CASES: list[tuple[bytes | str | None, tuple[str, ...]]] = [
    ("2017-07-30 14:09:08 ERROR some message", ()),
    ("2017-07-30 14:09:08 ERROR", ()),
    ("2017-07-30 14:09:08 ERROR ", ()),
    ("2017-07-30 14:09:08 fAtAl x\r", ()),
    ("2017-07-30 14:09:08 wArN x", ()),
    ("2017-07-30 14:09:08 INFO " + "x" * 5000, ()),
    ("2017-07-30 14:09:08 INFO 😀 '; DROP TABLE x; -- <script>", ()),
    ("2017-07-30 14:09:08 INFO a\rb\u2028c\u0085d\x00e\x1b[31m", ()),
    (b"2017-07-30 14:09:08 INFO \xff\xfe", ()),
    (None, ("null_value",)),
    ("", ("blank",)),
    ("\r", ("blank",)),
    ("   ", ("pattern",)),
    ("\r\r", ("pattern",)),
    ("2017-7-30 14:09:08 ERROR x", ("pattern",)),
    ("2017-07-30 14:09:08", ("pattern",)),
    (b"\xff" * 300, ("pattern",)),
    ("2017-02-30 14:09:08 ERROR x", ("time",)),
    ("2017-07-30 14:09:60 ERROR x", ("time",)),
    ("2017-07-30 24:00:00 ERROR x", ("time",)),
    ("1969-12-31 23:59:59 ERROR x", ("time_range",)),
    ("1970-01-01 00:00:00 ERROR x", ()),
    ("2017-08-02 12:00:00 ERROR x", ()),
    ("2017-08-02 12:00:01 ERROR x", ("time_range",)),
    ("9999-12-31 23:59:59 ERROR x", ("time_range",)),
    ("0000-01-01 00:00:00 ERROR x", ("time_range",)),
    ("2017-07-30 14:09:08 LOUD x", ("level",)),
    ("2017-07-30 14:09:08 WARNING x", ("level",)),
    ("2017-02-30 14:09:08 LOUD x", ("time", "level")),
    ("9999-02-28 14:09:08 LOUD x", ("time_range", "level")),
]


@pytest.mark.parametrize("general", [False, True], ids=["by-width", "by-pattern"])
def test_default_format_names_the_rules_that_a_line_breaks(bronze_of: BronzeOf, general: bool) -> None:
    default = of("default")
    parser = of("default", pattern=f"(?:{default.declared.pattern})") if general else default
    lines = Lines(bronze_of, [line for line, _ in DEFAULT_CASES], parser)
    assert lines.rules() == [rules for _, rules in DEFAULT_CASES]
    messages = [lines.good[at].message for at in range(9)]
    assert messages[:5] == ["some message", "", "", "x", "x"]
    assert messages[5] == "x" * 5000
    assert messages[6:] == ["😀 '; DROP TABLE x; -- <script>", "a\rb\u2028c\u0085d\x00e\x1b[31m", "\ufffd\ufffd"]
    assert [lines.good[at].level for at in range(5)] == ["ERROR", "ERROR", "ERROR", "FATAL", "WARN"]


def test_quarantine_keeps_the_bytes_and_shortens_what_it_shows(bronze_of: BronzeOf) -> None:
    lines = Lines(bronze_of, [b"\xff" * 300, "😀" * 100], of("default"))
    assert lines.bad[0].value == b"\xff" * 300
    assert lines.bad[0].reasons[0].value == "\ufffd" * 80
    assert lines.bad[1].reasons[0].value == "😀" * 80


def test_a_line_of_ten_megabytes_is_parsed(bronze_of: BronzeOf) -> None:
    long = "x" * 10_000_000
    assert len(Lines(bronze_of, [f"2017-07-30 14:09:08 INFO {long}"], of("default")).good[0].message) == len(long)
    log4j = Lines(bronze_of, [f"2015-07-29 17:41:44,747 - INFO [a] - {long}"], of("log4j"))
    assert len(log4j.good[0].message) == len(long)


def test_log4j_lines(bronze_of: BronzeOf) -> None:
    lines = Lines(
        bronze_of,
        [
            "2015-07-29 17:41:44,747 - INFO  [main:Cls@774] - text",
            "2015-07-29 17:41:44,747 - WARNING [] - ",
            "2015-07-29 17:41:44,747 - ERROR [a\nb] - one\ntwo",
            "2015-07-29 17:41:44 - INFO [main] - no milliseconds",
            "+999999999-07-29 17:41:44,747 - INFO [a] - b",
            "-999999999-07-29 17:41:44,747 - INFO [a] - b",
            "2015-07-29 17:41:44,747 INFO [a] - b",
        ],
        of("log4j"),
    )
    assert lines.rules() == [(), (), (), ("time",), ("time",), ("time",), ("pattern",)]
    assert lines.good[0].asDict() | {"ingested_at": None} == {
        "log_time": datetime(2015, 7, 29, 17, 41, 44, 747000),
        "level": "INFO",
        "message": "text",
        "fields": {"thread": "main:Cls@774"},
        "topic": "alog",
        "partition": 0,
        "offset": 0,
        "file": None,
        "ingested_at": None,
        "warnings": None,
    }
    assert (lines.good[1].level, lines.good[1].message, lines.good[1].fields) == ("WARN", "", {"thread": None})
    assert (lines.good[2].message, lines.good[2].fields) == ("one\ntwo", {"thread": "a\nb"})


def test_apache_error_lines(bronze_of: BronzeOf) -> None:
    lines = Lines(
        bronze_of,
        [
            "[Sun Dec 04 04:47:44 2005] [error] text",
            "[Fri Sep 09 10:42:29.902022 2011] [core:error] [pid 35708:tid 4328636416] [client 72.15.99.187] text",
            "[Fri Sep 09 10:42:29 2011] [ssl:trace8] [pid 1] ",
            "[Fri Sep 09 10:42:29 2011] [emerg] [client " + "x" * 100_000,
            "[Fri Sep  9 10:42:29 2011] [notice] x",
            "[Fri Feb 30 10:42:29 2011] [loud] x",
        ],
        of("apache_error"),
    )
    assert lines.rules() == [(), (), (), (), (), ("time", "level")]
    assert [lines.good[at].level for at in range(5)] == ["ERROR", "ERROR", "TRACE", "FATAL", "INFO"]
    assert lines.times()[:2] == [datetime(2005, 12, 4, 4, 47, 44), datetime(2011, 9, 9, 10, 42, 29, 902022)]
    assert lines.good[0].fields == {"module": None, "pid": None, "tid": None, "client": None}
    assert lines.good[1].fields == {"module": "core", "pid": "35708", "tid": "4328636416", "client": "72.15.99.187"}
    assert lines.good[1].message == "text"


def test_syslog_lines_of_three_kinds(bronze_of: BronzeOf) -> None:
    lines = Lines(
        bronze_of,
        [
            "<34>Jul 11 22:14:15 mymachine su[230]: 'su root' failed",
            '<165>1 2003-10-11T22:14:15.003Z host app - ID47 [x@1 a="b]\\"c"][y] An event',
            "<191>1 2017-07-30T14:09:08.123456+02:00 h a p m -",
            "Jul  9 22:14:15 mymachine su[230]: plain",
            "2017-07-30T14:09:08+02:00 mymachine su: plain, new style",
            "Jul 30 14:09:08 h a b c - no tag",
            "<192>Jul 11 22:14:15 h a: b",
            "<034>Jul 11 22:14:15 h a: b",
            "<13>1 - h a p m - no time",
            '<13>1 2017-07-30T14:09:08Z h a p m [x y="' + "a\\]" * 100_000 + '"] long',
            "Jul 30 14:09:08",
        ],
        of("syslog"),
    )
    assert lines.rules()[:6] == [()] * 6
    assert lines.rules()[6:] == [("level",), ("level",), ("time",), (), ("pattern",)]
    assert [lines.good[at].level for at in range(6)] == ["FATAL", "INFO", "DEBUG", "INFO", "INFO", "INFO"]
    assert lines.times()[:5] == [
        datetime(2017, 7, 11, 22, 14, 15),
        datetime(2003, 10, 11, 22, 14, 15, 3000),
        datetime(2017, 7, 30, 12, 9, 8, 123456),
        datetime(2017, 7, 9, 22, 14, 15),
        datetime(2017, 7, 30, 12, 9, 8),
    ]
    assert [lines.good[at].message for at in (0, 1, 2, 3)] == ["'su root' failed", "An event", "", "plain"]
    assert lines.good[0].fields["tag"] == "su"
    assert lines.good[0].fields["pid"] == "230"
    assert lines.good[1].fields["data"] == '[x@1 a="b]\\"c"][y]'
    assert (lines.good[5].message, lines.good[5].fields["app"]) == ("a b c - no tag", None)


def test_json_lines(bronze_of: BronzeOf) -> None:
    lines = Lines(
        bronze_of,
        [
            '{"time": "2017-07-30T14:09:08.123Z", "level":"error", "message":"m", "user": {"i": [1, "a"]}, "n": null}',
            ' {"ts": 1501423748, "level": 30, "msg": "m"} \r',
            '{"timestamp": "2017-07-30 14:09:08.123456789", "time": null, "severity": "warning"}',
            '{"time": 1501423748123, "level": "info", "message": "😀 \\u0000\\n", "a": 1, "a": 2}',
            '{"time": "2017-07-30T14:09:08+02:00", "level": "info", "message": "one", "msg": "two"}',
            '{"time": "2017-07-30T14:09:08", "level": true}',
            '{"time": [1], "level": "info"}',
            '{"time": "9999-12-31T23:59:59-05:00", "level": "info"}',
            '{"time": 1e999999999, "level": "info"}',
            "{}",
        ],
        of("json"),
    )
    both = ("time", "level")
    assert lines.rules() == [(), (), (), (), (), ("level",), ("time",), ("time_range",), ("time",), both]
    assert lines.times()[:5] == [
        datetime(2017, 7, 30, 14, 9, 8, 123000),
        datetime(2017, 7, 30, 14, 9, 8),
        datetime(2017, 7, 30, 14, 9, 8, 123456),
        datetime(2017, 7, 30, 14, 9, 8, 123000),
        datetime(2017, 7, 30, 12, 9, 8),
    ]
    assert [lines.good[at].level for at in range(5)] == ["ERROR", "INFO", "WARN", "INFO", "INFO"]
    assert [lines.good[at].message for at in range(5)] == ["m", "m", "", "😀 \x00\n", "one"]
    assert lines.good[0].fields == {"user": '{"i": [1, "a"]}', "n": None}
    assert lines.good[2].fields == {"time": None}
    assert lines.good[3].fields == {"a": "2"}
    assert lines.good[4].fields == {"msg": "two"}
    # a Python dict would hide an equal key
    assert accepted(lines.parsed).where("offset = 3 AND size(fields) = 1").count() == 1


def test_nested_json_is_read_by_path(bronze_of: BronzeOf) -> None:
    lines = Lines(
        bronze_of,
        [
            '{"meta": {"ts": 1501423748, "the level": "error"}, "events": [{"text": "m"}], "user": 1}',
            '{"meta": {"ts": null}, "time": 1501423749, "level": "info", "text": "t"}',
            '{"meta": "no object", "events": [], "time": 1501423750, "level": "info"}',
            '{"meta": {"ts": 1501423748, "the level": {}}}',
        ],
        of(
            "json",
            json={
                "time": ["$.meta.ts", "time"],
                "level": ["$.meta['the level']", "level"],
                "message": "$.events[0].text",
            },
        ),
    )
    assert lines.rules() == [(), (), (), ("level",)]
    assert [row.log_time.second for row in lines.good.values()] == [8, 9, 10]
    assert [(row.level, row.message) for row in lines.good.values()] == [("ERROR", "m"), ("INFO", ""), ("INFO", "")]
    assert lines.good[0].fields["user"] == "1"
    assert lines.good[1].fields == {"meta": '{"ts": null}', "text": "t"}


def test_a_json_line_that_is_not_an_object_breaks_the_pattern(bronze_of: BronzeOf) -> None:
    good = '{"time": "2017-07-30T14:09:08Z", "level": "info"}'
    broken = [f"[{good}]", "null", "5", '"x"', "{", good[:-1], f"{good} x", good * 2, f"{good},{good}", "]"]
    broken += [f"{good}]", f"[{good},{good}]", '{"a":' * 3000, "[" * 3000, "//x", "{'a': 1}", '{"a": "x\ty"}', "😀"]
    lines = Lines(bronze_of, broken, of("json"))
    assert lines.rules() == [("pattern",)] * len(broken)


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("Europe/Paris", [datetime(2017, 3, 26, 1, 30), datetime(2016, 10, 30, 0, 30)]),
        ("UTC", [datetime(2017, 3, 26, 2, 30), datetime(2016, 10, 30, 2, 30)]),
        ("-05:30", [datetime(2017, 3, 26, 8), datetime(2016, 10, 30, 8)]),
    ],
)
def test_zone_of_the_format_is_used_whatever_the_session_zone(
    spark: SparkSession, bronze_of: BronzeOf, zone: str, expected: list[datetime]
) -> None:
    frame = bronze_of(["2017-03-26 02:30:00 INFO skipped in Paris", "2016-10-30 02:30:00 INFO twice in Paris"])
    by_width, by_pattern = of("default", zone=zone), of("default", zone=zone, **GENERAL)
    micros = [int(time.replace(tzinfo=UTC).timestamp()) * 1_000_000 for time in expected]
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        for parser in (by_width, by_pattern):
            rows = accepted(parse(frame, parser, LIMITS)).selectExpr("unix_micros(log_time) AS t").collect()
            assert [row.t for row in rows] == micros
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_the_year_of_a_zone_ahead_of_utc_may_be_the_next_one(bronze_of: BronzeOf) -> None:
    frame = bronze_of(["Jan  1 00:30:00 host tag: x"], datetime(2017, 12, 30, 20))
    parsed = parse(frame, of("syslog", zone="+05:00"), LIMITS)
    assert [row.log_time for row in accepted(parsed).collect()] == [datetime(2017, 12, 31, 19, 30)]


@pytest.mark.parametrize(
    ("timestamp", "year"),
    [
        ("1969-12-31 23:59:59.999", 2017),
        ("1970-01-18 10:00:00", 2017),
        ("1999-12-31 23:59:59", 2017),
        ("2000-01-01 00:00:00", 1999),
        ("2014-08-01 00:00:00", 2014),
        ("2017-08-02 12:00:00", 2017),
        ("2017-08-02 12:00:01", 2017),
        ("2020-08-02 12:00:00", 2017),
        ("9999-12-31 23:59:59", 2017),
    ],
)
def test_a_kafka_timestamp_that_cannot_be_does_not_decide_the_year(
    bronze_of: BronzeOf, timestamp: str, year: int
) -> None:
    frame = bronze_of(["Jul 30 14:09:08 host tag: x"], datetime(2017, 8, 1, 12))
    frame = frame.withColumn("timestamp", F.lit(timestamp).cast("timestamp"))
    rows = accepted(parse(frame, of("syslog"), LIMITS)).collect()
    assert [row.log_time for row in rows] == [datetime(year, 7, 30, 14, 9, 8)]


def test_offset_in_the_time_gives_the_instant(bronze_of: BronzeOf) -> None:
    parser = of("default", time="dd/MMM/yyyy:HH:mm:ss Z", zone="Europe/Paris", **GENERAL)
    line = "30/Jul/2017:14:09:08 -0500 ERROR x"
    assert Lines(bronze_of, [line], parser).times() == [datetime(2017, 7, 30, 19, 9, 8)]


@pytest.mark.parametrize(
    ("taken_in", "text", "expected"),
    [
        (datetime(2017, 8, 1, 12), "Jul 30 14:09:08", datetime(2017, 7, 30, 14, 9, 8)),
        (datetime(2017, 8, 1, 12), "Aug  2 12:00:00", datetime(2017, 8, 2, 12)),
        (datetime(2017, 8, 1, 12), "Aug  2 12:00:01", datetime(2016, 8, 2, 12, 0, 1)),
        (datetime(2018, 1, 1, 0), "Dec 31 23:59:59", datetime(2017, 12, 31, 23, 59, 59)),
        (datetime(2017, 12, 31, 23), "Jan  1 00:00:00", datetime(2018, 1, 1)),
        (datetime(2017, 3, 1), "Feb 29 10:00:00", None),
        (datetime(2016, 2, 29), "Feb 29 10:00:00", datetime(2016, 2, 29, 10)),
        (datetime(2016, 12, 31), "Feb 29 10:00:00", datetime(2016, 2, 29, 10)),
        (datetime(2017, 2, 27), "Feb 29 10:00:00", datetime(2016, 2, 29, 10)),
        (datetime(2103, 3, 1), "Feb 29 10:00:00", None),
        (datetime(2017, 3, 1), "Feb 30 10:00:00", None),
    ],
)
def test_time_without_year_gets_the_nearest_one(
    bronze_of: BronzeOf, taken_in: datetime, text: str, expected: datetime | None
) -> None:
    parsed = parse(bronze_of([f"{text} host tag: x"], taken_in), of("syslog"), LIMITS)
    assert [row.log_time for row in accepted(parsed).collect()] == ([expected] if expected else [])
    assert quarantined(parsed).count() == (0 if expected else 1)


def test_limits_are_inclusive_at_both_ends(bronze_of: BronzeOf) -> None:
    limits = TimeLimits(earliest=datetime(2017, 7, 1, tzinfo=UTC), ahead=timedelta(0))
    times = ["2017-06-30 23:59:59", "2017-07-01 00:00:00", "2017-08-01 12:00:00", "2017-08-01 12:00:01"]
    parsed = parse(bronze_of([f"{time} INFO x" for time in times]), of("default"), limits)
    assert [row.offset for row in accepted(parsed).collect()] == [1, 2]


def test_filters_do_not_parse_every_line_again(bronze_of: BronzeOf) -> None:
    parsed = parse(bronze_of(["x"]), of("default"), LIMITS)
    for frame in (accepted(parsed), quarantined(parsed)):
        plan = optimized_plan(frame)
        assert plan.count("makeValid") == 1
