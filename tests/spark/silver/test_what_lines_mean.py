"""No time, level or record of a line is guessed: what has one reading gets it, what has several is refused by name."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import functions as F

from oncelake.silver.parsing.format import LogFormat, load_format
from oncelake.silver.parsing.parser import Parser
from oncelake.silver.transform import TimeLimits, accepted, parse, quarantined
from tests.support.bronze_rows import BronzeOf
from tests.support.places import FORMATS

pytestmark = pytest.mark.spark

READ_AT = datetime(2026, 11, 26, 12)
JAVA = "2026-11-25 10:00:01,500 ERROR [h] c.A - one"
ENVOY = {
    "pattern": r'^\[(?<time>[^\]]+)\] "(?<message>[^"]*)" (?<level>\S+) (?<flags>\S+)$',
    "time": "iso8601",
    "level_is": "status",
    "default_level": "WARN",
}

Expected = tuple[str, str, str] | str  # time, level and message; or the rule that refuses the line


def read(bronze_of: BronzeOf, fmt: LogFormat, lines: Sequence[str]) -> list[tuple[Expected, Mapping[str, Any]]]:
    """Return what each line of a file means, and its fields or its reason."""
    rows = bronze_of(lines, ingested_at=READ_AT).withColumns(
        {"file": F.lit("file:/a.log"), "file_modified": F.col("ingested_at")}
    )
    parsed = parse(rows, Parser(fmt), TimeLimits()).localCheckpoint()
    found: dict[int, tuple[Expected, Mapping[str, Any]]] = {}
    for row in accepted(parsed).collect():
        found[row.offset] = ((row.log_time.isoformat(), row.level, row.message), row.fields)
    for row in quarantined(parsed).collect():
        assert row.offset not in found
        found[row.offset] = (row.reasons[0].rule, row.reasons[0].asDict())
    return [found[at] for at in range(len(lines))]


def means(bronze_of: BronzeOf, fmt: LogFormat, lines: Sequence[str]) -> list[Expected]:
    return [meaning for meaning, _ in read(bronze_of, fmt, lines)]


# the zone of the lines if one is declared, the zone as it is written, the local time, and the instant or the rule
ZONES: list[tuple[str | None, str, str, str]] = [
    (None, "UTC", "2026-11-25 10:00:01", "2026-11-25T10:00:01"),
    (None, "GMT", "2026-11-25 10:00:01", "2026-11-25T10:00:01"),
    (None, "+03", "2026-11-25 10:00:01", "2026-11-25T07:00:01"),
    (None, "-03", "2026-11-25 10:00:01", "2026-11-25T13:00:01"),
    (None, "+0530", "2026-11-25 10:00:01", "2026-11-25T04:30:01"),
    (None, "+05:45", "2026-11-25 10:00:01", "2026-11-25T04:15:01"),
    (None, "-3", "2026-11-25 10:00:01", "2026-11-25T13:00:01"),
    (None, "+00:19:32", "2026-11-25 10:00:01", "2026-11-25T09:40:29"),
    (None, "+123", "2026-11-25 10:00:01", "time"),
    (None, "+19", "2026-11-25 10:00:01", "time"),
    (None, "CET", "2026-07-25 10:00:01", "2026-07-25T09:00:01"),
    (None, "CEST", "2026-11-25 10:00:01", "2026-11-25T08:00:01"),
    (None, "EST", "2026-07-25 10:00:01", "2026-07-25T15:00:01"),
    (None, "CEST", "2026-10-25 02:30:00", "2026-10-25T00:30:00"),
    (None, "CET", "2026-10-25 02:30:00", "2026-10-25T01:30:00"),
    (None, "EDT", "2026-11-01 01:30:00", "2026-11-01T05:30:00"),
    (None, "EST", "2026-11-01 01:30:00", "2026-11-01T06:30:00"),
    (None, "BST", "2026-07-25 10:00:01", "2026-07-25T09:00:01"),
    (None, "BST", "1975-07-25 10:00:01", "time_zone"),
    (None, "MSK", "2012-07-25 10:00:01", "2012-07-25T06:00:01"),
    (None, "MSK", "2026-07-25 10:00:01", "2026-07-25T07:00:01"),
    (None, "ChST", "2026-07-25 10:00:01", "2026-07-25T00:00:01"),
    (None, "IST", "2026-11-25 10:00:01", "time_zone"),
    (None, "CST", "2026-11-25 10:00:01", "time_zone"),
    (None, "PST", "2026-07-25 10:00:01", "time_zone"),
    (None, "AMT", "2026-07-25 10:00:01", "time_zone"),
    (None, "GST", "2026-07-25 10:00:01", "time_zone"),
    (None, "ECT", "2026-07-25 10:00:01", "time_zone"),
    (None, "AST", "2026-07-25 10:00:01", "2026-07-25T14:00:01"),
    (None, "SST", "2026-07-25 10:00:01", "2026-07-25T21:00:01"),
    (None, "GMT+3", "2026-07-25 10:00:01", "time_zone"),
    (None, "Europe/Paris", "2026-07-25 10:00:01", "2026-07-25T08:00:01"),
    ("Asia/Kolkata", "IST", "2026-11-25 10:00:01", "2026-11-25T04:30:01"),
    ("America/Chicago", "CST", "2026-07-25 10:00:01", "2026-07-25T16:00:01"),
    ("Asia/Manila", "PST", "2026-07-25 10:00:01", "2026-07-25T02:00:01"),
    ("Asia/Tokyo", "CET", "2026-07-25 10:00:01", "2026-07-25T09:00:01"),
    ("Asia/Tokyo", "PST", "2026-07-25 10:00:01", "time_zone"),
]


@pytest.mark.parametrize("zone", sorted({zone for zone, *_ in ZONES}, key=str))
def test_a_zone_is_an_offset_or_the_line_is_refused(bronze_of: BronzeOf, zone: str | None) -> None:
    cases = [(f"{local} {written}", wanted) for declared, written, local, wanted in ZONES if declared == zone]
    found = means(
        bronze_of, load_format("postgresql", [FORMATS]).in_zone(zone), [f"{time} [42] LOG:  x" for time, _ in cases]
    )
    wanted = {time: each if each.startswith("time") else (each, "INFO", "x") for time, each in cases}
    assert dict(zip(wanted, found, strict=True)) == wanted


@pytest.mark.parametrize(
    ("pattern", "text", "wanted"),
    [
        ("yyyy-MM-dd HH:mm:ssz", "2026-11-25 10:00:01CET", "2026-11-25T09:00:01"),
        ("MMM dd HH:mm:ss z yyyy", "Nov 25 10:00:01 CET 2026", "2026-11-25T09:00:01"),
        ("MMM d HH:mm:ss z", "Nov 25 10:00:01 CET", "2026-11-25T09:00:01"),
        ("MMM d HH:mm:ss z", "Nov 25 10:00:01 IST", "time_zone"),
        ("yy-MM-dd HH:mm:ss zzz", "26-11-25 10:00:01 CET", "2026-11-25T09:00:01"),
        ("dd.MM.yyyy hh:mm:ss a z", "25.11.2026 10:00:01 PM CET", "2026-11-25T21:00:01"),
    ],
)
def test_a_zone_is_found_wherever_it_stands(bronze_of: BronzeOf, pattern: str, text: str, wanted: str) -> None:
    declared = {"pattern": "^(?<time>[^|]*)[|](?<message>.*)$", "time": pattern, "default_level": "INFO"}
    (found,) = means(bronze_of, LogFormat.model_validate(declared), [f"{text}|x"])
    assert found == (wanted if wanted == "time_zone" else (wanted, "INFO", "x"))


def test_a_refused_zone_comes_with_its_meanings(bronze_of: BronzeOf) -> None:
    lines = [f"2026-11-25 10:00:01 {zone} [42] LOG:  x" for zone in ("IST", "ART")]
    assert [reason["value"] for _, reason in read(bronze_of, load_format("postgresql", [FORMATS]), lines)] == [
        "IST: +01:00 Europe/Dublin, +02:00 Asia/Jerusalem, +05:30 Asia/Kolkata",
        "ART: no zone uses it in 2026",
    ]


# the format, the line, what it means or the rule that refuses it, and some of its fields
LINES: list[tuple[str, str, Expected, dict[str, str | None]]] = [
    ("postgresql", "2026-11-25 10:00:01.500123 UTC [42] LOG:  x", ("2026-11-25T10:00:01.500123", "INFO", "x"), {}),
    (
        "postgresql",
        '2026-11-25 10:00:01.500 +03 [42] ann@shop ERROR:  relation "orders" does not exist',
        ("2026-11-25T07:00:01.500000", "ERROR", 'relation "orders" does not exist'),
        {"user": "ann", "database": "shop"},
    ),
    (
        "postgresql",
        "2026-11-25 10:00:01 UTC [42] ann lee@x.com@shop FATAL:  password",
        ("2026-11-25T10:00:01", "FATAL", "password"),
        {"user": "ann lee@x.com", "database": "shop"},
    ),
    (
        "postgresql",
        '2026-11-25 10:00:01 UTC [42] LOG:  statement: "a@b ERROR:  c"',
        ("2026-11-25T10:00:01", "INFO", 'statement: "a@b ERROR:  c"'),
        {},
    ),
    ("syslog", "<34>Nov 25 10:00:01 2026 h a: m", ("2026-11-25T10:00:01", "FATAL", "m"), {"host": "h", "tag": "a"}),
    ("syslog", "Nov  5 2019 10:00:01 web1 app: m", ("2019-11-05T10:00:01", "INFO", "m"), {"host": "web1"}),
    ("syslog", "Nov 25 10:00:01 UTC web1 app: m", "pattern", {}),
    ("syslog", "Nov 25 10:00:01 +0300 web1 app: m", "pattern", {}),
    ("syslog", "Nov 25 10:00:01 -03:00 web1 app: m", "pattern", {}),
    ("syslog", "Nov 25 10:00:01 SRV app: m", ("2026-11-25T10:00:01", "INFO", "m"), {"host": "SRV"}),
    ("syslog", "<34>1 2026-11-25T10:00:01Z h app - - - \ufeffm", ("2026-11-25T10:00:01", "FATAL", "m"), {"app": "app"}),
    ("syslog", "Feb 29 10:00:00 h a: x", "time", {}),
    *(
        ("syslog", line, "pattern", {})
        for line in (
            "2026-11-25T10:00:00Z ERROR failed to connect: 0",
            "2026-11-25T10:00:00Z main INFO: text",
            "2026-11-25T10:00:00.123456789Z E1125 10:00:00.123456       1 main.go:10] text",
            "2026-11-25T10:00:00Z error: GET /a",
            "2026-11-25T10:00:00Z [ERROR] agent.server: x",
            "2026-11-25T10:00:01.123+0100 7f1234560000 -1 osd.1 text",
            "Nov 25 10:00:01 CET: %LINK-3-UPDOWN: up",
            "Nov 25 10:00:01 BRT web1 app: m",
            "Nov 25 10:00:01 Z web1 app: m",
            "Nov 25 10:00:01 GMT+3 web1 app: m",
            "Nov 25 10:00:01 (UTC) web1 app: m",
            "Nov 25 10:00:01 Europe/Paris web1 app: m",
            "Nov 25 10:00:01 <auth.err> web1 app: m",
        )
    ),
    (
        "syslog",
        "2026-11-25T11:00:01.5+01:00 web1 sshd[1]: m",
        ("2026-11-25T10:00:01.500000", "INFO", "m"),
        {"host": "web1", "tag": "sshd", "pid": "1"},
    ),
    (
        "syslog",
        "<34>1 2026-11-25T10:00:01Z - app - - - m",
        ("2026-11-25T10:00:01", "FATAL", "m"),
        {"host": "-", "app": "app"},
    ),
    ("syslog", "Nov 25 10:00:01 fe80::1 su: m", ("2026-11-25T10:00:01", "INFO", "m"), {"host": "fe80::1", "tag": "su"}),
    (
        "java",
        "2026-11-25T10:00:01.500Z ERROR 42 --- [shop] [nio-1] [803B448A0489F840-3425F23BB2432450] c.A : m",
        ("2026-11-25T10:00:01.500000", "ERROR", "m"),
        {
            "pid": "42",
            "application": "shop",
            "thread": "nio-1",
            "trace": "803B448A0489F840-3425F23BB2432450",
        },
    ),
    (
        "java",
        f"2026-11-25T10:00:01.500Z ERROR 42 --- [           main] [{' ' * 49}] c.A : m",
        ("2026-11-25T10:00:01.500000", "ERROR", "m"),
        {"pid": "42", "application": None, "thread": "main", "trace": None},
    ),
    (
        "access",
        'www.example.org 1.2.3.4 - - [25/Nov/2026:10:00:01 +0000] "GET / HTTP/1.1" 401 5',
        ("2026-11-25T10:00:01", "WARN", "GET / HTTP/1.1"),
        {"vhost": "www.example.org", "client": "1.2.3.4", "user": "-"},
    ),
    ("access", 'www.example.org host.net - - [25/Nov/2026:10:00:01 +0000] "GET / HTTP/1.1" 401 5', "pattern", {}),
    (
        "access",
        '1.2.3.4 - "" [25/Nov/2026:10:00:01 +0000] "GET / HTTP/1.1" 401 5',
        ("2026-11-25T10:00:01", "WARN", "GET / HTTP/1.1"),
        {"user": '""'},
    ),
    (
        "access",
        '1.2.3.4 - a\\"b [25/Nov/2026:10:00:01 +0000] "GET / HTTP/1.1" 401 5',
        ("2026-11-25T10:00:01", "WARN", "GET / HTTP/1.1"),
        {"user": 'a\\"b'},
    ),
    (
        "access",
        '1.2.3.4 - - [25/Nov/2026:10:00:01 +0000] "GET / HTTP/1.1" 000 0',
        ("2026-11-25T10:00:01", "INFO", "GET / HTTP/1.1"),
        {"status": "000"},
    ),
    (
        "postgresql",
        '2026-11-25 10:00:01.500 UTC [42] LOG:  x@shop FATAL:  password authentication failed for user "LOG:  x"',
        "pattern",
        {},
    ),
    ("postgresql", "2026-11-25 10:00:01.500 UTC [42] a@b LOG:  x@shop FATAL:  no", "pattern", {}),
    (
        "json",
        '{"time":"2026-11-25 13:00:00","timestamp":1795600801500,"level":"info","event":"m"}',
        ("2026-11-25T10:00:01.500000", "INFO", "m"),
        {"time": "2026-11-25 13:00:00"},
    ),
    (
        "json",
        '{"time":0.012,"@timestamp":"2026-11-25T10:00:01Z","level":"info","fields":{"message":"m"}}',
        ("2026-11-25T10:00:01", "INFO", "m"),
        {"time": "0.012"},
    ),
    (
        "access",
        '10.0.0.1 - john doe [25/Nov/2026:10:00:01 +0000] "GET / HTTP/1.1" 401 5 "-" "curl"',
        ("2026-11-25T10:00:01", "WARN", "GET / HTTP/1.1"),
        {"user": "john doe"},
    ),
    (
        "access",
        '10.0.0.1 - a [b] c [25/Nov/2026:10:00:01 +0000] "GET / HTTP/1.1" 401 5',
        ("2026-11-25T10:00:01", "WARN", "GET / HTTP/1.1"),
        {"user": "a [b] c"},
    ),
    (
        "access",
        '1.2.3.4, 5.6.7.8 - - [25/Nov/2026:10:00:01 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"',
        ("2026-11-25T10:00:01", "INFO", "GET / HTTP/1.1"),
        {"client": "1.2.3.4, 5.6.7.8"},
    ),
    (
        "access",
        'www.example.org:443 1.2.3.4 - - [25/Nov/2026:10:00:01 +0000] "GET / HTTP/1.1" 500 5 "-" "c"',
        ("2026-11-25T10:00:01", "ERROR", "GET / HTTP/1.1"),
        {"client": "1.2.3.4", "vhost": "www.example.org:443"},
    ),
    (
        "access",
        '2001:db8::1 - john doe [25/Nov/2026:10:00:01 +0000] "GET / HTTP/1.1" 200 5',
        ("2026-11-25T10:00:01", "INFO", "GET / HTTP/1.1"),
        {"client": "2001:db8::1", "user": "john doe"},
    ),
    (
        "access",
        '1.2.3.4 - - [25/Nov/2026:10:00:01 +0000] "GET / HTTP/1.1" 200 5 "-" "curl" rt=0.012 "x"',
        ("2026-11-25T10:00:01", "INFO", "GET / HTTP/1.1"),
        {"more": 'rt=0.012 "x"'},
    ),
    ("klog", "E1125 10:00:01.500000   42 a.go:1] one", ("2026-11-25T10:00:01.500000", "ERROR", "one"), {}),
    ("klog", "E20261125 10:00:01.500000   42 a.cc:1] one", ("2026-11-25T10:00:01.500000", "ERROR", "one"), {}),
    (
        "log4j",
        "2026-11-25 10:00:01,500 - WARN  [a] - b [c] - d",
        ("2026-11-25T10:00:01.500000", "WARN", "b [c] - d"),
        {"thread": "a"},
    ),
]


@pytest.mark.parametrize("name", sorted({name for name, *_ in LINES}))
def test_a_shipped_format_reads_the_whole_line_or_refuses_it(bronze_of: BronzeOf, name: str) -> None:
    cases = [case[1:] for case in LINES if case[0] == name]
    found = read(bronze_of, load_format(name, [FORMATS]), [line for line, *_ in cases])
    for (line, wanted, fields), (meaning, held) in zip(cases, found, strict=True):
        assert meaning == wanted, line
        assert {key: held.get(key) for key in fields} == fields


@pytest.mark.parametrize("name", ["json", "logfmt"])
def test_a_number_too_small_for_a_time_is_none(bronze_of: BronzeOf, name: str) -> None:
    wanted = {
        "12.5": "time",
        "0": "time",
        "86400000": "time",
        "99999999.999999": "time",
        "100000000": ("1973-03-03T09:46:40", "INFO", "m"),
        "100000000000": "time_range",
        "1795600801.5": ("2026-11-25T10:00:01.500000", "INFO", "m"),
        "1795600801500": ("2026-11-25T10:00:01.500000", "INFO", "m"),
    }
    line = '{{"ts":{},"level":"info","msg":"m"}}' if name == "json" else "ts={} level=info msg=m"
    found = means(bronze_of, load_format(name, [FORMATS]), [line.format(number) for number in wanted])
    assert dict(zip(wanted, found, strict=True)) == wanted


def test_a_status_that_is_none_has_the_default_level(bronze_of: BronzeOf) -> None:
    levels = {**dict.fromkeys(("0", "-", "000", "600", "999"), "WARN"), "503": "ERROR", "200": "INFO"}
    lines = [f'[2026-11-25T10:00:01Z] "GET /a" {status} DC' for status in (*levels, "ok")]
    read_lines = [("2026-11-25T10:00:01", level, "GET /a") for level in levels.values()]
    assert means(bronze_of, LogFormat.model_validate(ENVOY), lines) == [*read_lines, "level"]
    without = LogFormat.model_validate({**ENVOY, "default_level": None})
    assert means(bronze_of, without, lines) == [*["level"] * 5, *read_lines[5:], "level"]


OTHERS = {
    "of its own format, behind colours": "\x1b[31m2026-11-25 10:00:02,500 ERROR [h] c.A - two\x1b[0m",
    "of its own format, behind a mark": "\ufeff2026-11-25 10:00:02,500 ERROR [h] c.A - two",
    "access": '1.2.3.4 - - [25/Nov/2026:10:00:01 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"',
    "nginx_error": "2026/11/25 10:00:01 [error] 31#7: *42 connect() failed",
    "klog": "E1125 10:00:01.500000   42 a.go:1] one",
    "glog": "E20261125 10:00:01.500000   42 a.cc:1] one",
    "syslog": "Nov 25 10:00:01 web1 su[230]: failed",
    "syslog with a priority": "<34>1 2026-11-25T10:00:01Z h app - - - m",
    "apache_error": "[Sun Dec 04 04:47:44 2005] [error] text",
    "json": '{"level": "error", "msg": "x", "ts": 1501423748.5}',
    "docker": '{"log":"x\\n","stream":"stdout","time":"2026-11-25T10:00:01.5Z"}',
    "logfmt": 'ts=2026-11-25T10:00:01Z caller=a.go:1 level=error msg="x"',
    "gunicorn": "[2026-11-25 10:00:00 +0000] [12] [ERROR] Exception in worker process",
    "a collector of garbage": "[2026-11-25T10:00:02.123+0000][info][gc] Pause",
    "tomcat": "25-Nov-2026 10:00:02.123 SEVERE [main] a.B.c x",
    "java.util.logging": "Nov 25, 2026 10:00:02 AM a.B c",
    "logback": "10:00:02.123 [main] ERROR a.B - x",
    "django": '[25/Nov/2026 10:00:02] "GET / HTTP/1.1" 200 5',
    "werkzeug": '127.0.0.1 - - [25/Nov/2026 10:00:02] "GET / HTTP/1.1" 200 -',
    "python's own": "ERROR:root:x",
    "uvicorn": 'INFO:     127.0.0.1:1234 - "GET / HTTP/1.1" 200 OK',
    "digits alone": "20261125 10:00:02 ERROR x",
    "American dates": "11/25/2026 10:00:02 ERROR x",
    "serilog": '{"@t":"2026-11-25T10:00:02Z","@mt":"x"}',
    "klog's JSON": '{"ts":1795600800123.4,"caller":"a.go:1","msg":"x","v":0}',
    "colours with a colon": "\x1b[38:5:1m2026-11-25 10:00:02,500 ERROR [h] c.A - two",
    "a line that was cleared": "\x1b[2K\r2026-11-25 10:00:02,500 ERROR [h] c.A - two",
    "a zero width space": "\u200b2026-11-25 10:00:02,500 ERROR [h] c.A - two",
}
THEIR_OWN = [
    "\tat c.A.b(A.java:10)\nCaused by: java.io.IOException: gone\n\t... 3 more",
    "  2026-11-25 10:00:02 is indented",
    "SELECT *\nFROM orders WHERE at > '2026-11-25 10:00:00'",
    '{"order": 1, "time": "2026-11-25T10:00:01Z"}',
    "time=3ms",
    "[1, 2, 3]\n\n-- end --",
    "Nov 25 was the day",
    "10.0.0.1 answered [late]",
    "12.5.2026 was a day",
    "ERROR: relation does not exist",
    "SEVERE: the second line of java.util.logging",
    '{"message": "x", "time": "2026-11-25T10:00:01Z"}',
]


def one(rest: str) -> Expected:
    return ("2026-11-25T10:00:01.500000", "ERROR", f"one\n{rest}")


def test_a_record_that_holds_another_records_line_is_refused(bronze_of: BronzeOf) -> None:
    lines = [f"{JAVA}\n\tat c.A.b(A.java:1)\n{other}" for other in OTHERS.values()]
    found = means(bronze_of, load_format("java", [FORMATS]), lines)
    assert dict(zip(OTHERS, found, strict=True)) == dict.fromkeys(OTHERS, "record_mixed")


def test_a_trace_and_a_payload_are_part_of_their_record(bronze_of: BronzeOf) -> None:
    lines = [f"{JAVA}\n{own}" for own in THEIR_OWN]
    assert means(bronze_of, load_format("java", [FORMATS]), lines) == [one(own) for own in THEIR_OWN]


def test_a_format_says_what_its_further_lines_begin_with(bronze_of: BronzeOf) -> None:
    java = load_format("java", [FORMATS])
    assert java.record is not None
    rests = ["\tat x\nCaused by: y", "plain", OTHERS["klog"]]
    lines = [f"{JAVA}\n{rest}" for rest in rests]
    for begin, wanted in {
        r"\s|Caused by:": [one(rests[0]), "record_mixed", "record_mixed"],
        "(?!)": ["record_mixed"] * 3,
        "^": [*map(one, rests)],
    }.items():
        declared = java.model_copy(update={"record": java.record.model_copy(update={"lines": begin})})
        assert means(bronze_of, declared, lines) == wanted


COLOURED: list[tuple[str, str]] = [
    (
        "java",
        "\x1b[0m2026-11-25 10:00:01,500 \x1b[1;31mERROR\x1b[0m [h] \x1b]8;;http://x\x07c.A\x1b]8;;\x1b\\ - o\x1b[Kne",
    ),
    ("logfmt", "\x1b[36mtime\x1b[0m=2026-11-25T10:00:01.500Z level=\x1b[31merror\x1b[0m msg=one"),
    (
        "json",
        '{"time":"2026-11-25T10:00:01.500Z","level":"\\u001b[31merror\\u001b[39m","msg":"o\\u001B[4mne","n":"\\u001b[1mx"}',
    ),
]


@pytest.mark.parametrize(("name", "line"), COLOURED)
def test_colours_are_no_part_of_a_line_where_the_format_says_so(bronze_of: BronzeOf, name: str, line: str) -> None:
    log_format = load_format(name, [FORMATS]).model_copy(update={"strip_ansi": True})
    ((meaning, held),) = read(bronze_of, log_format, [line])
    assert meaning == ("2026-11-25T10:00:01.500000", "ERROR", "one")
    assert not any("\x1b" in value for value in held.values() if value)
    assert isinstance(means(bronze_of, load_format(name, [FORMATS]), [line])[0], str), "nothing is stripped unasked"


def test_a_byte_order_mark_before_a_line_is_no_part_of_it(bronze_of: BronzeOf) -> None:
    assert means(bronze_of, load_format("java", [FORMATS]), [f"\ufeff{JAVA}"]) == [
        ("2026-11-25T10:00:01.500000", "ERROR", "one")
    ]


CRI = "2026-11-25T10:00:03.500000000Z stderr F "
# the outer format, what is inside, the line, what it means or the rule that refuses it, and some of its fields
WRAPPED: list[tuple[str, Any, str, Expected, dict[str, str]]] = [
    ("kubernetes", "java", f"{CRI}{JAVA}", ("2026-11-25T10:00:01.500000", "ERROR", "one"), {"tag": "F", "thread": "h"}),
    ("kubernetes", "java", f"{CRI}no line of Java", "pattern", {}),
    (
        "kubernetes",
        "klog",
        f"{CRI}I1125 10:00:01.500000   42 a.go:1] one",
        ("2026-11-25T10:00:01.500000", "INFO", "one"),
        {},
    ),
    ("kubernetes", "json", f'{CRI}{{"level":"warn","msg":"m"}}', ("2026-11-25T10:00:03.500000", "WARN", "m"), {}),
    (
        "kubernetes",
        "json",
        f'{CRI}{{"level":"warn","msg":"m","tag":"own"}}',
        ("2026-11-25T10:00:03.500000", "WARN", "m"),
        {"tag": "own", "outer_tag": "F"},
    ),
    ("kubernetes", "json", f'{CRI}{{"level":"warn","msg":"m","time":"yesterday"}}', "time", {}),
    ("kubernetes", "json", f'{CRI}{{"msg":"m"}}', "level", {}),
    (
        "docker",
        "logfmt",
        '{"log":"level=error msg=\\"a b\\"\\n","stream":"stdout","time":"2026-11-25T10:00:03Z"}',
        ("2026-11-25T10:00:03", "ERROR", "a b"),
        {},
    ),
    (
        "syslog",
        {"web": "access"},
        'Nov 25 10:00:03 h web: ::1 - - [25/Nov/2026:10:00:01 +0000] "GET /" 500 5',
        ("2026-11-25T10:00:01", "ERROR", "GET /"),
        {"host": "h", "client": "::1"},
    ),
    (
        "syslog",
        {"web": "access"},
        "Nov 25 10:00:03 h su[1]: denied",
        ("2026-11-25T10:00:03", "INFO", "denied"),
        {"tag": "su"},
    ),
    (
        "syslog",
        {"by": "host", "h": "klog"},
        "Nov 25 10:00:03 h a: W1125 10:00:01.500000 4 b.go:1] c",
        ("2026-11-25T10:00:01.500000", "WARN", "c"),
        {},
    ),
]


def test_a_line_inside_another_has_its_own_time_and_level(bronze_of: BronzeOf) -> None:
    of_format: dict[str, list[tuple[str, Expected, dict[str, str]]]] = {}
    for outer, inside, line, wanted, fields in WRAPPED:
        of_format.setdefault(json.dumps([outer, inside]), []).append((line, wanted, fields))
    for named, cases in of_format.items():
        outer, inside = json.loads(named)
        found = read(bronze_of, load_format(outer, [FORMATS], inside), [line for line, *_ in cases])
        for (line, wanted, fields), (meaning, held) in zip(cases, found, strict=True):
            assert meaning == wanted, line
            assert {key: held.get(key) for key in fields} == fields


@pytest.mark.parametrize(("zone", "hour"), [(None, "10"), ("Asia/Tokyo", "01"), ("-05:00", "15")])
def test_a_declared_zone_is_that_of_times_without_one(bronze_of: BronzeOf, zone: str | None, hour: str) -> None:
    declared = load_format("java", [FORMATS]).in_zone(zone)
    assert means(bronze_of, declared, [JAVA]) == [(f"2026-11-25T{hour}:00:01.500000", "ERROR", "one")]


def test_a_declared_zone_is_that_of_the_line_inside(bronze_of: BronzeOf) -> None:
    declared = load_format("kubernetes", [FORMATS], "java").in_zone("Asia/Tokyo")
    assert means(bronze_of, declared, [f"{CRI}{JAVA}"]) == [("2026-11-25T01:00:01.500000", "ERROR", "one")]
