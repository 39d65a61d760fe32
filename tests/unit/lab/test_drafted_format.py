"""A drafted format reads the time, the level and the message that the lines have; a doubtful one is refused."""

import re
from datetime import UTC, datetime

import pytest
import yaml

from oncelake.lab.drafted_format import NO_LEVEL, NO_YEAR, NO_ZONE, Draft, NoDraftError, draft_format
from oncelake.lab.log_formats import Sample, known_formats, suggest_format
from oncelake.silver.plain_reader import PlainLine, PlainReader
from tests.support.places import FORMATS

# when the samples' files were written
WRITTEN = datetime(2026, 11, 28, tzinfo=UTC)
T = "2026-11-25 10:00:0"

# what it is → lines, and of each record its time, level and message; None is a refused line
READ: dict[str, tuple[str, list[tuple[str, str, str] | None]]] = {
    "a level after the time, and lines that follow": (
        "26/11/2025 10:19:49 WARN Utils: Your hostname\n26/11/2025 10:19:50 INFO X: y\n\tat z\n",
        [("2025-11-26 10:19:49", "WARN", "Utils: Your hostname"), ("2025-11-26 10:19:50", "INFO", "X: y\n\tat z")],
    ),
    "brackets, fractions and other names of levels": (
        "[2026-11-25 10:00:00.123] [info] one\n[2026-11-25 10:00:00.5] [err] two\n",
        [("2026-11-25 10:00:00.123", "INFO", "one"), ("2026-11-25 10:00:00.500", "ERROR", "two")],
    ),
    "a level before the time": (
        "SEVERE: 25-Nov-2026 10:00:00.123 [main] y\nINFO: 25-Nov-2026 10:00:01 [main] z\n",
        [("2026-11-25 10:00:00.123", "ERROR", "[main] y"), ("2026-11-25 10:00:01", "INFO", "[main] z")],
    ),
    "words that differ before the level": (
        "<26.11.2026 10:00:00> (till-1) Err: card refused\n<26.11.2026 10:00:01> (till-22) info: paid\n",
        [("2026-11-26 10:00:00", "ERROR", "card refused"), ("2026-11-26 10:00:01", "INFO", "paid")],
    ),
    "colours": (
        f"\x1b[2m{T}0\x1b[0m \x1b[32mINFO\x1b[0m one\n{T}1 \x1b[1;31mERROR\x1b[0m two\n",
        [(f"{T}0", "INFO", "one"), (f"{T}1", "ERROR", "two")],
    ),
    "colours in JSON": (
        '{"timestamp":"2026-11-25T10:00:00Z","level":"\\u001b[32minfo\\u001b[39m","message":"one"}\n',
        [(f"{T}0", "INFO", "one")],
    ),
    "no level": (
        "25.11.2026 10:00:00 user ann logged in\n",
        [("2026-11-25 10:00:00", "INFO", "user ann logged in")],
    ),
    "a time that is part of a name, and one that is not": (
        f"api.log.1.2017-05-16_13:53:08 {T}0.008 42 INFO one\napi.log.1.2017-05-16_13:53:08 {T}1.000 42 WARNING two\n",
        [(f"{T}0.008", "INFO", "one"), (f"{T}1", "WARN", "two")],
    ),
    "a number of seconds beside a local time": (
        "- 1117838570 2005.06.03 R02 2005-06-03-15.42.50.675872 RAS INFO one\n"
        "X 1117838573 2005.06.03 R02 2005-06-03-15.42.53.276129 RAS SEVERE two\n"
        "X 1117838576 2005.06.03 R02 2005-06-03-15.42.56.276129 RAS FATAL three\n",
        [
            ("2005-06-03 22:42:50", "INFO", "one"),
            ("2005-06-03 22:42:53", "ERROR", "two"),
            ("2005-06-03 22:42:56", "FATAL", "three"),
        ],
    ),
    "a number of milliseconds that is a value of the message": (
        "20171223-22:15:29:606|Step|total=1514038529000|a\n20171223-22:15:30:606|Step|total=1514038530000|b\n",
        [
            ("2017-12-23 22:15:29.606", "INFO", "Step|total=1514038529000|a"),
            ("2017-12-23 22:15:30.606", "INFO", "Step|total=1514038530000|b"),
        ],
    ),
    "a time of an offset beside a local time": (
        "25.11.2026 10:00:00 [2026-11-25T09:00:00+00:00] INFO one\n"
        "25.11.2026 10:00:01 [2026-11-25T09:00:01+00:00] INFO two\n",
        [("2026-11-25 09:00:00", "INFO", "one"), ("2026-11-25 09:00:01", "INFO", "two")],
    ),
    "a number that is another time than that of the line": (
        f"{T}0 INFO 1600000000 expires\n{T}1 INFO 1600000900 expires\n",
        [(f"{T}0", "INFO", "1600000000 expires"), (f"{T}1", "INFO", "1600000900 expires")],
    ),
    "an offset behind a space, in two forms of zones": (
        "2026-11-25 10:00:00 +0100 1abc <= ann\n2026-11-25 10:00:01 +0000 1abc => bob\n",
        [("2026-11-25 09:00:00", "INFO", "1abc <= ann"), ("2026-11-25 10:00:01", "INFO", "1abc => bob")],
    ),
    "an offset of two digits": (
        "2026-11-25 10:00:00.123+03 LOG:  one\n2026-11-25 10:00:01.123+03 ERROR:  two\n",
        [("2026-11-25 07:00:00.123", "INFO", "one"), ("2026-11-25 07:00:01.123", "ERROR", "two")],
    ),
    "an offset in a column of its own": (
        f"{T}0,+0100,ERROR,one\n{T}1,+0100,INFO,two\n",
        [("2026-11-25 09:00:00", "ERROR", "one"), ("2026-11-25 09:00:01", "INFO", "two")],
    ),
    "an abbreviation in a column of its own, in winter and summer": (
        "2026-03-29 01:00:00|CET|ERROR|one\n2026-03-29 03:00:00|CEST|INFO|two\n",
        [("2026-03-29 00:00:00", "ERROR", "one"), ("2026-03-29 01:00:00", "INFO", "two")],
    ),
    "an abbreviation in brackets": (
        f"{T}0 [CET] ERROR one\n{T}1 [CET] INFO two\n",
        [("2026-11-25 09:00:00", "ERROR", "one"), ("2026-11-25 09:00:01", "INFO", "two")],
    ),
    "a place behind the time": (
        f"{T}0 Europe/Paris ERROR one\n{T}1 Europe/Paris INFO two\n",
        [("2026-11-25 09:00:00", "ERROR", "one"), ("2026-11-25 09:00:01", "INFO", "two")],
    ),
    "a fraction between commas, by its zeros in front": (
        "".join(f"2026-11-25 10:{at:02}:00,{at * at * 137 % 1000:03},INFO,one\n" for at in range(30)),
        [(f"2026-11-25 10:{at:02}:00.{at * at * 137 % 1000:03}", "INFO", "one") for at in range(30)],
    ),
    "hours of a half day": (
        "11/25/2026 01:00:00 PM INFO one\n11/25/2026 12:00:01 AM ERROR two\n",
        [("2026-11-25 13:00:00", "INFO", "one"), ("2026-11-25 00:00:01", "ERROR", "two")],
    ),
    "six digits that go on at midnight": (
        "081109 235959 1 INFO one\n081110 000001 1 INFO two\n",
        [("2008-11-09 23:59:59", "INFO", "one"), ("2008-11-10 00:00:01", "INFO", "two")],
    ),
    "a block's number, which is no time": (
        "081109 235959 143 INFO DataNode: Receiving block blk_-1608999687919862906\n"
        "081110 000001 145 WARN DataNode: Received block blk_1608999688919862906\n",
        [
            ("2008-11-09 23:59:59", "INFO", "DataNode: Receiving block blk_-1608999687919862906"),
            ("2008-11-10 00:00:01", "WARN", "DataNode: Received block blk_1608999688919862906"),
        ],
    ),
    "milliseconds in a message": (
        "20171223-22:15:29:606|Step|steps=1514038440000##7007\n20171223-22:15:30:7|Step|steps=1514038440000##7008\n",
        [
            ("2017-12-23 22:15:29", "INFO", "Step|steps=1514038440000##7007"),
            ("2017-12-23 22:15:30", "INFO", "Step|steps=1514038440000##7008"),
        ],
    ),
    "milliseconds without leading zeros": (
        "20171223-22:15:29:606|Step|one\n20171224-0:7:20:44|Step|two\n",
        [("2017-12-23 22:15:29", "INFO", "Step|one"), ("2017-12-24 00:07:20", "INFO", "Step|two")],
    ),
    "single letters": (
        "03-17 16:13:38.811  1702  2395 D Window: one\n03-17 16:13:38.819  1702  8671 I Power: two\n",
        [("2026-03-17 16:13:38.811", "DEBUG", "Window: one"), ("2026-03-17 16:13:38.819", "INFO", "Power: two")],
    ),
    "three letters of levels": (
        f"{T}0 I one\n{T}1 W two\n{T}2 E three\n",
        [(f"{T}0", "INFO", "one"), (f"{T}1", "WARN", "two"), (f"{T}2", "ERROR", "three")],
    ),
    "a letter before a tag": (
        f"{T}0 I/ActivityManager( 17): one\n{T}1 E/ActivityManager( 17): two\n",
        [(f"{T}0", "INFO", "( 17): one"), (f"{T}1", "ERROR", "( 17): two")],
    ),
    "a letter before a date of klog": (
        f"{T}0Z I1125 10:00:00.1 1 a.go:1] one\n{T}1Z E1125 10:00:01.1 1 a.go:1] two\n",
        [(f"{T}0", "INFO", "1125 10:00:00.1 1 a.go:1] one"), (f"{T}1", "ERROR", "1125 10:00:01.1 1 a.go:1] two")],
    ),
    "Serilog": (
        f"{T}0.123 +01:00 [VRB] one\n{T}1.123 +01:00 [ERR] two\n{T}2.123 +01:00 [FTL] three\n",
        [
            ("2026-11-25 09:00:00.123", "TRACE", "one"),
            ("2026-11-25 09:00:01.123", "ERROR", "two"),
            ("2026-11-25 09:00:02.123", "FATAL", "three"),
        ],
    ),
    "Monolog": (
        f"[{T}0] production.ERROR: one\n[{T}1] local.INFO: two\n",
        [(f"{T}0", "ERROR", "one"), (f"{T}1", "INFO", "two")],
    ),
    "Celery": (
        f"[{T}0,123: ERROR/MainProcess] one\n[{T}1,123: INFO/ForkPoolWorker-1] two\n",
        [(f"{T}0.123", "ERROR", "one"), (f"{T}1.123", "INFO", "two")],
    ),
    "a number in brackets apart from the time, which is no priority": (
        f"<12> {T}0 one\n<140> {T}1 two\n",
        [(f"{T}0", "INFO", "one"), (f"{T}1", "INFO", "two")],
    ),
    "a priority before a version": (
        f"<11>1 {T}0 one\n<14>1 {T}1 two\n",
        [(f"{T}0", "ERROR", "one"), (f"{T}1", "INFO", "two")],
    ),
    "a priority in JSON that is none of syslog": (
        f'{{"time": "{T}0Z", "priority": 1, "msg": "one"}}\n', [(f"{T}0", "INFO", "one")]
    ),
    "GELF": (
        '{"version": "1.1", "host": "a", "short_message": "one", "timestamp": 1795600801, "level": 3}\n',
        [("2026-11-25 10:00:01", "ERROR", "one")],
    ),
    "a level on the line below the time": (
        "Nov 25, 2026 1:00:00 PM org.apache.Main start\nINFO: Starting\n"
        "Nov 25, 2026 1:00:01 PM org.apache.Main start\nSEVERE: failed\n",
        [("2026-11-25 13:00:00", "INFO", "Starting"), ("2026-11-25 13:00:01", "ERROR", "failed")],
    ),
    "times on lines of their own": (
        "2026-11-25T10:00:00.123456+01:00\n"
        "Thread 1 advanced\n  Current log# 1\n2026-11-25T10:00:01.123456+01:00\nDone\n",
        [
            ("2026-11-25 09:00:00.123456", "INFO", "Thread 1 advanced\n  Current log# 1"),
            ("2026-11-25 09:00:01.123456", "INFO", "Done"),
        ],
    ),
    "a severity in a mnemonic": (
        "Nov 25 2026 10:00:01 fw1 : %ASA-6-302013: Built\nNov 25 2026 10:00:02 fw1 : %ASA-3-302014: No\n",
        [("2026-11-25 10:00:01", "INFO", "302013: Built"), ("2026-11-25 10:00:02", "ERROR", "302014: No")],
    ),
    "a weekday before a time on a line of its own": (
        "Wed Nov 25 10:00:00 2026\nThread 1 advanced\nWed Nov 25 10:00:01 2026\nThread 2 advanced\n",
        [("2026-11-25 10:00:00", "INFO", "Thread 1 advanced"), ("2026-11-25 10:00:01", "INFO", "Thread 2 advanced")],
    ),
    "a priority of syslog, and a year": (
        "<166>Nov 25 2026 10:00:01 fw1 : %ASA-6-302013: Built\n<163>Nov 25 2026 10:00:02 fw1 : %ASA-3-302014: No\n",
        [
            ("2026-11-25 10:00:01", "INFO", "fw1 : %ASA-6-302013: Built"),
            ("2026-11-25 10:00:02", "ERROR", "fw1 : %ASA-3-302014: No"),
        ],
    ),
    "lines of directives, which no record swallows": (
        "#Fields: date time cs-method\n"
        "2026-11-25 10:00:00 GET /a 200\n#Date: 2026-11-25 10:00:01\n2026-11-25 10:00:01 GET /b 200\n",
        [None, (f"{T}0", "INFO", "GET /a 200"), None, (f"{T}1", "INFO", "GET /b 200")],
    ),
    "lines of another program between those of a log": (
        f"{T}0 INFO one\n--------- beginning of main\n{T}1 INFO two\n",
        [(f"{T}0", "INFO", "one"), None, (f"{T}1", "INFO", "two")],
    ),
    "a message that begins with a minus": (
        f"{T}0 INFO -5 degrees\n{T}1 WARN 7 degrees\n",
        [(f"{T}0", "INFO", "-5 degrees"), (f"{T}1", "WARN", "7 degrees")],
    ),
    "marks behind a level that is padded": (
        f"[{T}0,123][INFO ][node] one\n[{T}1,123][ERROR][node] two\n",
        [(f"{T}0.123", "INFO", "[node] one"), (f"{T}1.123", "ERROR", "[node] two")],
    ),
    "words in quotes": (
        f'"{T}0","INFO","one"\n"{T}1","ERROR","two"\n',
        [(f"{T}0", "INFO", '"one"'), (f"{T}1", "ERROR", '"two"')],
    ),
    "MongoDB": (
        '{"t":{"$date":"2026-11-25T10:00:01.500+00:00"},"s":"I","c":"NETWORK","msg":"one"}\n'
        '{"t":{"$date":"2026-11-25T11:00:30.250+01:00"},"s":"W","c":"STORAGE","msg":"two"}\n',
        [("2026-11-25 10:00:01.500", "INFO", "one"), ("2026-11-25 10:00:30.250", "WARN", "two")],
    ),
    "systemd's journal as JSON": (
        '{"__REALTIME_TIMESTAMP":"1764064801500123","__MONOTONIC_TIMESTAMP":"12","PRIORITY":"3","MESSAGE":"one"}\n',
        [("2025-11-25 10:00:01.500123", "ERROR", "one")],
    ),
    "a number of seconds that is the first word": (
        "1764064801 paid\n1764064804 sent\n",
        [("2025-11-25 10:00:01", "INFO", "paid"), ("2025-11-25 10:00:04", "INFO", "sent")],
    ),
    "a number of seconds in brackets, whose clock agrees": (
        "[1764064801] 11:00:01 paid\n[1764064804] 11:00:04 sent\n",
        [("2025-11-25 10:00:01", "INFO", "11:00:01 paid"), ("2025-11-25 10:00:04", "INFO", "11:00:04 sent")],
    ),
    "a number of milliseconds under a key of a time": (
        "job ts=1764064801000 paid\njob ts=1764064804000 sent\n",
        [("2025-11-25 10:00:01", "INFO", "paid"), ("2025-11-25 10:00:04", "INFO", "sent")],
    ),
    "a number of seconds with a fraction among the first words": (
        "web1 1764064801.5 paid\nweb1 1764064804.25 sent\n",
        [("2025-11-25 10:00:01.500", "INFO", "paid"), ("2025-11-25 10:00:04.250", "INFO", "sent")],
    ),
    "a number of seconds in JSON, beside a local time": (
        '{"time": "2026-11-25 12:00:01", "ts": 1795600801, "level": "info", "msg": "one", "took": "00:00:09"}\n',
        [("2026-11-25 10:00:01", "INFO", "one")],
    ),
    "keys and values": (
        'at=2026-11-25T10:00:00Z sev=x severity=err text="a b"\nat=2026-11-25T10:00:01Z sev=x severity=info text=c\n',
        [("2026-11-25 10:00:00", "ERROR", "a b"), ("2026-11-25 10:00:01", "INFO", "c")],
    ),
}  # fmt: skip

# what it is → lines, and what the refusal says
REFUSED: dict[str, tuple[str, str]] = {
    "nothing": ("", "no time was found"),
    "no time": ("no time here\n", "no time was found"),
    "an object without a time": ('{"a": 1}\n', "none of their keys is a time"),
    "two digits each": (
        "17/06/09 20:10:40 INFO one\n",
        "yy/MM/dd HH:mm:ss (2017-06-09) or dd/MM/yy HH:mm:ss (2009-06-17)",
    ),
    "a day or a month": (
        "05/06/2026 20:10:40 INFO one\n",
        "dd/MM/yyyy HH:mm:ss (2026-06-05) or MM/dd/yyyy HH:mm:ss (2026-05-06)",
    ),
    "a day or a month without a year": (
        "[05.06 16:49:06] chrome.exe\n",
        "MM.dd HH:mm:ss (May 06) or dd.MM HH:mm:ss (June 05)",
    ),
    "a date that is the same every month": (
        "01/02/2026 02:00:00 INFO one\n02/02/2026 02:00:00 INFO two\n03/02/2026 02:00:00 INFO three\n",
        "dd/MM/yyyy HH:mm:ss (2026-02-01) or MM/dd/yyyy HH:mm:ss (2026-01-02)",
    ),
    "a number inside a word": (
        "Received block blk_-1608999687919862906 of size 1\nblk_1608999687919862906 done\n",
        "no time was found",
    ),
    "a time inside a word": (f"job-{T[:10]}T10:00:00-x failed\n", "no time was found"),
    "times at any place": ("started 2026-11-25 10:00:00\nthe job on host b started 2026-11-25 10:00:01\n", "one place"),
    "a time of day": ("10:00:01.123 [main] INFO one\n", "a time of day, but no date"),
    "identifiers that count up": ("".join(f"{1500000000 + at} paid\n" for at in range(9)), "may be times"),
    "numbers in any order": ("1764012345 paid\n1764001234 paid\n1764054321 paid\n1764023456 paid\n", "may be times"),
    "a number that is no offset": (f"{T}0 +15 points\n{T}1 +15 points\n", "may be no offset"),
    "an identifier that grows": ("".join(f"order {1710000000 + 3 * at} paid\n" for at in range(40)), "may be times"),
    "an identifier that grows beside a clock": (
        "".join(f"10:00:0{at} INFO order {1710000000 + 3 * at} paid\n" for at in range(9)),
        "a time of day, but no date",
    ),
    "an identifier before a clock": (
        "".join(f"{1710000000 + 3 * at} 10:00:0{at} INFO paid\n" for at in range(9)),
        "a time of day, but no date",
    ),
    "an identifier of thirteen digits under a key": (
        "".join(f"order={1710000000000 + 3 * at} level=info\n" for at in range(40)), "may be times"
    ),
    "an identifier in JSON": (
        "".join(f'{{"order": {1710000000 + 3 * at}, "level": "info"}}\n' for at in range(40)),
        "none of their keys is a time",
    ),
    "a number in JSON that a clock contradicts": (
        '{"ts": 1710000000, "clock": "10:00:00"}\n{"ts": 1710000003, "clock": "10:20:01"}\n',
        "none of their keys is a time",
    ),
    "the start of an event of CEF": (
        "CEF:0|V|P|1|100|login|3|rt=1795600800000 src=a start=1795600400000 msg=x\n", "CEF or LEEF"
    ),
    "numbers in the future": ("1893456000 paid\n1893456900 paid\n", "may be times"),
    "an unknown zone": (f"{T}0 UTC+3 INFO one\n", "may be its zone"),
    "a zone with several meanings": (f"{T}0 (IST) INFO one\n", "may be its zone"),
    **{
        f"the zone in {zone.strip()}": (f"{T}0{zone} ERROR one\n{T}1{zone} INFO two\n", "may be its zone")
        for zone in (
            ' "+0100"', '","+0100",', " tz=+01:00", " +1", " MESZ", " W. Europe Standard Time", " UTC+1",
            " host +01:00", " a host Europe/Paris", "|MET|", " ART", ",Z,",
        )
    },
    "a zone before the time": (f"[CET] {T}0 INFO one\n", "CET, which may be its zone"),
    "a zone under another key of JSON": (
        f'{{"time": "{T}0", "timezone": "Europe/Paris", "level": "info"}}\n', "timezone is Europe/Paris"
    ),
    "a zone under another key": (f'time="{T}0" tz=CET level=info\n', "tz is CET"),
    "a column of two digits": (f"{T}0,-05,INFO,one\n", "may be no offset"),
    "a column of numbers": ("".join(f"{T}{at},+0{at}00,INFO,one\n" for at in range(5)), "may be no offset"),
    "a status behind a comma": (f"{T}0,200,GET,/a\n{T}1,404,GET,/b\n{T}2,000,GET,/c\n", "a fraction or a column"),
    "numbers that count behind a comma": (
        "".join(f"2026-11-25 10:{at:02}:00,{at:03},GET,/a\n" for at in range(30)), "a fraction or a column"
    ),
    "an offset in some lines": (f"{T}0 +02 INFO one\n{T}1 INFO two\n", "may be their offset"),
    "a fraction or a column": (f"{T}0,5,GET\n{T}1,42,GET\n", "a fraction or a column"),
    "levels at any place": (f"{T}0 a ERROR b\n{T}1 ERROR b\n{T}2 a b c INFO d\n", "look like levels"),
    "an unknown word among levels": (
        f"{T}0 [ERR] a\n{T}1 [INF] b\n{T}2 [XYZ] c\n", "ERR, INF are levels, but XYZ in their place is none"
    ),
    "unknown numbers under a key of levels": (
        f'{{"time": "{T}0Z", "level": 3, "msg": "one"}}\n', "level has values such as 3"
    ),
    "one name far from the time": (f"{T}0 S a b c;CRITICAL;d\n{T}1 S a b c;CRITICAL;d\n", "look like levels"),
    "two kinds of lines": (f"{T}0 INFO one\n25.11.2026 10:00:00 two\n" * 9, "lines of two kinds"),
    "records with their time in the middle": (
        "Event[0]:\n  Log Name: Application\n  Date: 2026-11-25T10:00:00.000\n  Level: Error\n" * 3, "one place"
    ),
    "two numbers that may be times": (
        "a 1764064801 1764064861 ACCEPT\nb 1764064901 1764064999 ACCEPT\n",
        "two numbers",
    ),
    "two keys that may be the time": ('{"a": "2026-11-25T10:00:00Z", "b": "2026-11-25T11:00:00Z"}\n', "a, b are times"),
    "lines of JSON over several lines": ('{"time": "2026-11-25T10:00:00Z",\n"x": 1}\n', "JSON objects"),
}  # fmt: skip


def drafted(text: str) -> Draft:
    return draft_format(text.split("\n"), WRITTEN)


def read(text: str) -> list[PlainLine]:
    return PlainReader(drafted(text).log_format, WRITTEN).lines(text)


@pytest.mark.parametrize("case", READ)
def test_a_draft_reads_the_lines_that_it_was_made_from(case: str) -> None:
    text, expected = READ[case]
    lines = [
        (f"{line.log_time:%Y-%m-%d %H:%M:%S.%f}", line.level, line.message) if line.log_time else None
        for line in read(text)
    ]
    assert lines == [
        (f"{datetime.fromisoformat(reading[0]):%Y-%m-%d %H:%M:%S.%f}", *reading[1:]) if reading else None
        for reading in expected
    ]


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_be_read_in_several_ways_is_refused_by_name(case: str) -> None:
    text, said = REFUSED[case]
    with pytest.raises(NoDraftError, match=re.escape(said)):
        drafted(text)


def test_what_a_draft_assumes_is_said_once_and_in_the_format() -> None:
    local = drafted("03-17 16:13:38 up\n")
    assert local.assumptions == [NO_ZONE, NO_YEAR, NO_LEVEL]
    assert "\nzone: UTC                # an assumption: " in local.text
    assert "# The times have no year: " in local.text
    assert "# No level was found: " in local.text
    absolute = drafted("2026-11-25T10:00:00Z INFO up\n")
    assert absolute.assumptions == []
    assert "zone" not in absolute.text


def test_no_text_of_a_line_is_dropped_without_a_field() -> None:
    (line,) = read("- 1117838570 2005.06.03 R02 [a b] INFO one\n")
    assert list(line.fields.values()) == ["-", "2005.06.03", "R02", "a b"]


def test_a_level_inside_a_name_is_none() -> None:
    draft = drafted(f"{T}0 error.log opened\n{T}1 error.log closed\n")
    assert NO_LEVEL in draft.assumptions


@pytest.mark.parametrize("word", ["ALERT", "LOG", "FINE"])
def test_a_word_that_may_be_a_part_of_the_message_is_no_level_alone(word: str) -> None:
    assert NO_LEVEL in drafted(f"{T}0 {word} one\n{T}1 {word} two\n").assumptions


@pytest.mark.parametrize(
    ("letters", "said"),
    [("EI", "E, I"), ("TF", "F, T"), ("ID", "D, I"), ("NEW", "E, N, W"), ("II", "I")],
)
def test_letters_that_may_be_levels_are_none_and_are_shown(letters: str, said: str) -> None:
    text = "".join(f"{T}{at} {letter} have seen\n" for at, letter in enumerate(letters))
    assert NO_LEVEL in drafted(text).assumptions
    assert [line.message for line in read(text)] == [f"{letter} have seen" for letter in letters]
    suggestion = suggest_format(Sample(text.encode(), WRITTEN), {})
    assert suggestion.chosen is not None
    assert any(warning.startswith(f"{said} at one place") for warning in suggestion.chosen.warnings)


@pytest.mark.parametrize("word", ["production.ERROR", "ERR/3", "error", "CRIT/x"])
def test_words_like_levels_are_shown_if_the_draft_has_no_level(word: str) -> None:
    text = "".join(f"{T}{at} user {'a ' * at}saw {word} here\n" for at in range(9))
    suggestion = suggest_format(Sample(text.encode(), WRITTEN), {})
    assert suggestion.chosen is not None
    assert any("look like levels" in warning for warning in suggestion.chosen.warnings)


def test_the_keys_and_paths_of_json_lines_are_found() -> None:
    line = '{"meta": {"ts": "2026-11-25T10:00:00Z", "a level": "%s"}, "body": {"text": "a long text"}, "n": 1}'
    draft = yaml.safe_load(drafted("\n".join([line % "warning", line % "info", line % "debug"])).text)
    assert draft["json"] == {"time": "$.meta.ts", "level": "$.meta['a level']", "message": "$.body.text"}
    assert (draft["time"], draft["levels"]) == ("iso8601", {"WARNING": "WARN"})


def test_a_draft_with_levels_beats_a_known_format_that_reads_none() -> None:
    lines = [f"2026-11-25T10:00:0{at}.5Z {at} [{'Warning' if at else 'System'}] [MY-1] text\n" for at in range(3)]
    suggestion = suggest_format(Sample("".join([*lines, *lines]).encode(), WRITTEN), known_formats([FORMATS]))
    assert suggestion.chosen is not None
    assert suggestion.chosen.levels == {"INFO": 2, "WARN": 4}
