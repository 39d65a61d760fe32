"""The shipped formats parse lines as the systems write them: level, time, message and fields."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from oncelake.silver.parsing.parser import load_parser
from oncelake.silver.transform import TimeLimits, accepted, parse
from tests.support.bronze_rows import BronzeOf
from tests.support.places import FORMATS

pytestmark = pytest.mark.spark

AT = datetime(2017, 7, 30, 14, 9, 8)
TRACE = "\njava.io.IOException: gone\n\n\tat c.e.Api.get(Api.java:10)\n\t... 3 more"
TRACEBACK = '\nTraceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: no'

# format → lines, each with its level, its fraction of a second in microseconds, its message, and some of its fields
SAMPLES: dict[str, list[tuple[str, str, int, str, dict[str, str | None]]]] = {
    "java": [
        (
            f"2017-07-30 14:09:08,500 ERROR [http-1] com.example.Api - failed{TRACE}",
            "ERROR",
            500_000,
            f"failed{TRACE}",
            {"thread": "http-1", "logger": "com.example.Api"},
        ),
        (
            "2017-07-30 14:09:08.123 [main] INFO  c.e.App - a [x] b: c - d",
            "INFO",
            123_000,
            "a [x] b: c - d",
            {"thread": "main", "logger": "c.e.App"},
        ),
        (
            "2017-07-30T16:09:08.001+02:00  WARN 42 --- [shop] [           main] c.e.App$Inner                  : slow",
            "WARN",
            1000,
            "slow",
            {"thread": "main", "logger": "c.e.App$Inner"},
        ),
        (
            "2017-07-30T14:09:08.001Z  INFO 42 --- [  restartedMain] c.e.App : Started in 3 s",
            "INFO",
            1000,
            "Started in 3 s",
            {"thread": "restartedMain", "logger": "c.e.App"},
        ),
        (
            "2017-07-30 14:09:08,978 INFO [main] org.apache.hadoop.mapreduce.v2.app.MRAppMaster: Created",
            "INFO",
            978_000,
            "Created",
            {"thread": "main", "logger": "org.apache.hadoop.mapreduce.v2.app.MRAppMaster"},
        ),
        ("2017-07-30 14:09:08 SEVERE c.e.Old:12 - ", "ERROR", 0, "", {"thread": None, "logger": "c.e.Old:12"}),
    ],
    "python": [
        (
            f"2017-07-30 14:09:08,500 - shop.api - ERROR - failed{TRACEBACK}",
            "ERROR",
            500_000,
            f"failed{TRACEBACK}",
            {"logger": "shop.api"},
        ),
        ("2017-07-30 14:09:08,500 WARNING shop: slow", "WARN", 500_000, "shop: slow", {"logger": None}),
        ("2017-07-30 14:09:08,500 [CRITICAL] a: b", "FATAL", 500_000, "a: b", {}),
        ("2017-07-30 14:09:08.123456 DEBUG: x", "DEBUG", 123_456, "x", {}),
    ],
    "access": [
        (
            '127.0.0.1 - ann [30/Jul/2017:07:09:08 -0700] "GET /a?b=\\"c HTTP/1.1" 200 2326 "/r" "Mozilla/5.0 (X)"',
            "INFO",
            0,
            'GET /a?b=\\"c HTTP/1.1',
            {"client": "127.0.0.1", "user": "ann", "status": "200", "bytes": "2326", "agent": "Mozilla/5.0 (X)"},
        ),
        ('::1 - - [30/Jul/2017:14:09:08 +0000] "GET / HTTP/1.0" 404 -', "WARN", 0, "GET / HTTP/1.0", {"bytes": "-"}),
        ('h - - [30/Jul/2017:14:09:08 +0000] "-" 503 0 "-" "-" 0.003 "x"', "ERROR", 0, "-", {"referer": "-"}),
    ],
    "nginx_error": [
        (
            "2017/07/30 14:09:08 [crit] 31#7: *42 connect() to [::1]:80 failed (2: No such file)",
            "FATAL",
            0,
            "connect() to [::1]:80 failed (2: No such file)",
            {"pid": "31", "tid": "7", "connection": "42"},
        ),
        ("2017/07/30 14:09:08 [notice] 1#1: start worker", "INFO", 0, "start worker", {"connection": None}),
    ],
    "logfmt": [
        (
            'time=2017-07-30T14:09:08.5Z level=eror msg="a \\"b\\" = c\\\\d" user=ann empty= flag url=/x?y=z',
            "ERROR",
            500_000,
            'a "b" = c\\d',
            {"user": "ann", "empty": "", "flag": "", "url": "/x?y=z"},
        ),
        ("ts=1501423748 lvl=info", "INFO", 0, "", {}),
        (r'lvl=dbg msg="a\nb\\n\t\"c" time=2017-07-30T14:09:08Z', "DEBUG", 0, 'a\nb\\n\t"c', {}),
        ('level=warn message="x" t=1501423748001', "WARN", 1000, "x", {}),
    ],
    "docker": [
        (
            '{"log":"started\\n","stream":"stderr","time":"2017-07-30T14:09:08.000000001Z"}',
            "ERROR",
            0,
            "started\n",
            {},
        )
    ],
    "kubernetes": [
        ("2017-07-30T14:09:08.000000001Z stdout F {} x", "INFO", 0, "{} x", {"tag": "F"}),
        ("2017-07-30T16:09:08.5+02:00 stderr P half a", "ERROR", 500_000, "half a", {"tag": "P"}),
    ],
    "klog": [
        (
            "E0730 14:09:08.500000   42 api.go:10] failed\ngoroutine 1 [running]:",
            "ERROR",
            500_000,
            "failed\ngoroutine 1 [running]:",
            {"thread": "42", "source": "api.go:10"},
        ),
        ("I0730 14:09:08.000001 1 a.go:1] ", "INFO", 1, "", {}),
    ],
    "postgresql": [
        (
            "2017-07-30 14:09:08.500 UTC [42] ann@shop STATEMENT:  SELECT 1\n\tFROM x",
            "INFO",
            500_000,
            "SELECT 1\n\tFROM x",
            {"pid": "42", "user": "ann", "database": "shop"},
        ),
        ("2017-07-30 16:09:08 CEST [1] LOG:  ready", "INFO", 0, "ready", {"user": None}),
        ("2017-07-30 14:09:08.001 GMT [1] [unknown]@[unknown] PANIC:  no", "FATAL", 1000, "no", {"user": "[unknown]"}),
    ],
}
REFUSED = {
    "java": ["2017-07-30 14:09:08 no level here", "\tat c.e.Api.get(Api.java:10)"],
    "python": ["Traceback (most recent call last):", "2017-07-30 14:09:08,500"],
    "access": ['h - - [30/Jul/2017:14:09:08 +0000] "GET / HTTP/1.0" 20x 1', 'h - - [-] "x" 200 1'],
    "nginx_error": ["2017/07/30 14:09:08 [loud] 1#1: x"],
    "logfmt": ['msg="never closed', "no pair at all", "=x", 'a=b"c', "level=info msg=no_time"],
    "docker": ['{"log":"x","stream":"stdout"}', "{"],
    "kubernetes": ["2017-07-30T14:09:08Z stdin F x"],
    "klog": ["X0730 14:09:08.500000 1 a.go:1] x"],
    "postgresql": ["2017-07-30 14:09:08.500 UTC [42] LOUD:  x", "\tFROM x"],
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_shipped_format_parses_what_its_system_writes(bronze_of: BronzeOf, name: str) -> None:
    samples, refused = SAMPLES[name], REFUSED[name]
    parser = load_parser(name, [FORMATS])
    parsed = parse(bronze_of([*(line for line, *_ in samples), *refused]), parser, TimeLimits()).localCheckpoint()
    rows: dict[int, Any] = {row.offset: row for row in accepted(parsed).collect()}
    assert sorted(rows) == [*range(len(samples))], parsed.select("line", "reasons").collect()
    for at, (_, level, micros, message, fields) in enumerate(samples):
        row = rows[at]
        assert (row.level, row.log_time, row.message) == (level, AT.replace(microsecond=micros), message)
        assert {key: row.fields.get(key) for key in fields} == fields


@pytest.mark.parametrize("path", sorted(FORMATS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_format_begins_with_lines_that_it_parses(bronze_of: BronzeOf, path: Path) -> None:
    comments = [line.removeprefix("# ") for line in path.read_text().split("\n") if line.startswith("# ")]
    first = comments[0].split("        ")[0].rsplit("  (", 1)[0].rstrip()
    assert yaml.safe_load(path.read_text())
    rows = bronze_of([first], ingested_at=datetime(2026, 12, 31))
    assert accepted(parse(rows, load_parser(path.stem, [FORMATS]), TimeLimits())).count() == 1
