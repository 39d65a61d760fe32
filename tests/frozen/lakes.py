"""Define the frozen lakes: how each was made, and the steps that open it again.

They were made by version 0.1.0. They are not made again: a lake of the current program proves nothing about
a lake of an earlier one.
"""

import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError
from oncelake.engine import replay as replaying
from oncelake.engine.runner import Run
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.files import LocalFiles
from oncelake.sources.kafka import kind as kafka
from oncelake.sources.kafka.admin import describe
from oncelake.sources.kafka.source import LastRecords, Topic
from tests.support.broker import Broker
from tests.support.house import House

FIRST = [
    b"2017-07-30 14:09:08 ERROR one",
    b"30.07.2017 14:09:09 ERROR two",
    b"broken",
    b"",
    b"2017-07-30 14:10:00 INFO 3",
]
SECOND = [b"2017-06-20 00:00:01 ERROR 40 days late", b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:11:00 WARN four"]
THIRD = [b"2017-07-30 14:12:08 ERROR five", b"30.07.2017 14:12:09 INFO six", b"2017-07-30 14:09:08 ERROR one"]
MORE = [b"2017-07-30 14:12:59 ERROR seven", b"2017-07-30 14:09:00 ERROR eight", b"broken again"]
GROWN = [b"2017-07-30 14:15:%02d INFO of a log that grows" % number for number in range(60)]
TIMES = {
    "yyyy-MM-dd HH:mm:ss": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
    "dd.MM.yyyy HH:mm:ss": r"\d\d\.\d\d\.\d{4} \d\d:\d\d:\d\d",
    "yyyy.MM.dd HH:mm:ss": r"\d{4}\.\d\d\.\d\d \d\d:\d\d:\d\d",
}
SUITE = {
    "name": "silver.access_log",
    "expectations": [
        {
            "type": "expect_column_value_lengths_to_be_between",
            "kwargs": {"column": "message", "max_value": 6},
            "severity": "warning",
            "meta": {"rule": "short"},
        },
        {
            "type": "expect_column_values_to_match_regex",
            "kwargs": {"column": "message", "regex": "^[^x]"},
            "meta": {"rule": "no x"},
        },
    ],
}


@dataclass(frozen=True)
class FrozenLake:
    """One frozen lake.

    Attributes:
        name: the name of its archive and its golden file.
        make: makes it, with the version that froze it.
        steps: the commands that open it and continue, in order; a step that starts with `write` adds a log file,
            and after the step `answer` the topic answers as it did when the lake was frozen.
        sets: settings in addition to the lake's place and the source's.
        lines: every line of its logs that counts, with `MORE` if a step writes it.
    """

    name: str
    make: Callable[[House, SparkSession], None]
    steps: Sequence[tuple[str, ...]]
    lines: Sequence[bytes]
    sets: Mapping[str, str] | None = None

    def of(self, house: House) -> House:
        """Set this lake's settings in a house and return it; `{root}` in them is the lake's place."""
        house.sets = [f"{key}={value.format(root=house.root)}" for key, value in (self.sets or {}).items()]
        return house


def write(house: House, name: str, lines: Sequence[bytes]) -> None:
    """Write a log whose modification time is whole seconds, which no archive rounds."""
    house.write(name, *lines)
    at = datetime(2026, 1, 2, 3, 4, int(name[0]), tzinfo=UTC).timestamp()
    os.utime(house.logs / name, (at, at))


def fill(house: House, spark: SparkSession) -> None:
    """Ingest three batches."""
    for number, lines in enumerate((FIRST, SECOND, THIRD)):
        write(house, f"{number} [x] %20é.log", lines)
        house.run(spark)


def whole(house: House, spark: SparkSession) -> None:
    """Use everything that writes: a suite, a served table, a proof, an audit, maintenance."""
    (house.root / "expectations").mkdir()
    (house.root / "expectations" / "silver.access_log.json").write_text(json.dumps(SUITE))
    house.tell(spark, "serving", "init")
    fill(house, spark)
    house.tell(spark, "prove")
    house.tell(spark, "validate")
    house.tell(spark, "maintain")


def old_forms(house: House, spark: SparkSession) -> None:
    """Write the metadata of the first batch in form 1, and of the second in form 2."""
    fill(house, spark)
    for commit in house.lake.glob("*/*/_delta_log/*.json"):
        entries = [json.loads(line) for line in commit.read_bytes().splitlines()]
        for entry in entries:
            metadata = json.loads(entry.get("commitInfo", {}).get("userMetadata") or "{}")
            if metadata.get("batch_id") not in (0, 1):
                continue
            metadata["oncelake"] = metadata["batch_id"] + 1
            for key in ("quality", "replay", *(("event", "lost") if metadata["oncelake"] == 1 else ())):
                del metadata[key]
            entry["commitInfo"]["userMetadata"] = json.dumps(metadata, separators=(",", ":"))
        commit.write_text("".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in entries))
        commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)


def half_a_silver_batch(house: House, spark: SparkSession) -> None:
    """Leave the state of a kill between silver's two writes: only the first table has the last batch."""
    fill(house, spark)
    unwrite(house.checkpoint("silver") / "commits" / "2")
    for gold in ("gold.error_log", "gold.log_volume"):
        unwrite(house.checkpoint(gold) / "commits" / "2")
        unwrite(house.checkpoint(gold) / "offsets" / "2")
    for table in ("silver/quarantine", "gold/error_log", "gold/log_volume"):  # their data files stay, as after a kill
        newest = max((house.table(table) / "_delta_log").glob("*.json"))
        unwrite(newest)
        unwrite(newest.with_suffix(".crc"))


def unwrite(path: Path) -> None:
    """Remove a file with its checksum."""
    path.unlink(missing_ok=True)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def begun_rebuild(house: House, spark: SparkSession) -> None:
    """Kill a rebuild of silver after it has removed three things."""
    fill(house, spark)
    removed: list[str] = []
    remove = LocalFiles.remove

    def dying(self: LocalFiles, path: str) -> None:
        if len(removed) == 3:
            raise KeyboardInterrupt
        removed.append(path)
        remove(self, path)

    with patch.object(LocalFiles, "remove", dying), pytest.raises(KeyboardInterrupt):
        house.rebuild(spark, "silver")


def emptied_rebuild(house: House, spark: SparkSession) -> None:
    """Kill a rebuild of bronze before it replays; the old bronze is kept aside."""
    fill(house, spark)
    with patch.object(Run, "once", lambda _: None):
        house.rebuild(spark, "bronze")


def begun_replay(house: House, spark: SparkSession) -> None:
    """Finish one replay of quarantine, and kill the next after silver has its lines."""
    write_format(house, times=1)
    fill(house, spark)
    write_format(house, times=2)
    house.tell(spark, "quarantine", "replay")
    house.run(spark)
    write(house, "3.log", [b"2017.07.30 14:13:00 ERROR nine"])
    house.run(spark)
    write_format(house, times=3)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with patch.object(replaying, "move_out", dies):
        assert house.told(spark, "quarantine", "replay")[0] != 0


def write_format(house: House, times: int) -> None:
    """Write a format that accepts the first `times` ways of writing a time."""
    patterns, times_ = "|".join([*TIMES.values()][:times]), ", ".join([*TIMES][:times])
    (house.root / "format.yaml").write_text(
        f"pattern: '^(?<time>{patterns}) (?<level>[^ ]+)(?: (?<message>.*))?$'\ntime: [{times_}]\n"
    )


def recovered(house: House, spark: SparkSession) -> None:
    """Recover lost checkpoints, accept the loss of a planned file, and accept a file that grew."""
    fill(house, spark)
    shutil.rmtree(house.lake / "_checkpoints")
    house.tell(spark, "recover")
    write(house, "3.log", MORE)

    def stops(*_: object) -> None:
        raise ValueError("stopped")

    with patch.object(Batch, "append", stops), pytest.raises(StageError):
        house.run(spark)
    (house.logs / "3.log").unlink()
    house.tell(spark, "recover", "bronze", "--accept-loss")
    house.run(spark)
    grown = house.logs / "1 [x] %20é.log"
    with grown.open("ab") as file:
        file.write(b"2017-07-30 14:20:00 ERROR never counted\n")
    os.utime(grown, (1767322999, 1767322999))
    house.tell(spark, "census", "accept", str(grown))


def growing(house: House, spark: SparkSession) -> None:
    """Follow a log that grows, one that is compressed, and one that is gone; positions are those of version 0.2."""
    write(house, "0.log", GROWN[:40])
    with gzip.open(house.logs / "1.log.gz", "wb") as packed:
        packed.write(b"".join(line + b"\n" for line in FIRST))
    write(house, "2.log", SECOND)
    house.run(spark)
    with (house.logs / "0.log").open("ab") as log:
        log.write(b"".join(line + b"\n" for line in GROWN[40:]))
    (house.logs / "2.log").unlink()
    house.run(spark)


def topic(house: House, spark: SparkSession) -> None:
    """Ingest a topic in two batches and prove them; more records wait, and the broker's description of it is kept."""
    with tempfile.TemporaryDirectory() as scratch, Broker(Path(scratch) / "kafka") as broker:
        broker.make_topic(TOPIC, partitions=2)
        reads(house, broker)
        for partition, lines in enumerate((FIRST, SECOND)):
            broker.send(TOPIC, lines, partition)
            house.run(spark)
        house.tell(spark, "prove")
        broker.send(TOPIC, MORE)
        told = describe(spark, {"bootstrap.servers": broker.servers}, [TOPIC])[TOPIC]
    (house.root / "topic.json").write_text(json.dumps(asdict(told)))


def reads(house: House, broker: Broker) -> None:
    """Let a lake read its topic from a real broker."""
    away = ("source.bootstrap_servers=", "source.kafka=")
    house.sets = [each for each in house.sets if not each.startswith(away)]
    house.sets.append(f"source.bootstrap_servers={broker.servers}")


def answering(house: House, **changed: Any) -> Any:
    """Let the topic of a frozen lake answer as it did, or with changes, without a broker."""
    told = Topic(**{**json.loads((house.root / "topic.json").read_text()), **changed})
    return patch.multiple(kafka, describe=lambda *_: {TOPIC: told}, compare_last=lambda *_: lambda *_: LastRecords())


TOPIC = "alog"
LINES = [*FIRST, *SECOND, *THIRD]
LOOK = (("status",), ("doctor",), ("prove",), ("census", "--list"))
GO_ON = (("write", "9.log"), ("run", "--once"), ("prove", "--full"), ("run", "--once"))
LAKES = (
    FrozenLake(
        "whole",
        whole,
        (
            *LOOK,
            ("trace", "0 [x] %20é.log:2017-07-30 14:09:08 ERROR one"),
            ("quarantine",),
            ("quarantine", "replay", "--dry-run"),
            ("recover", "--dry-run"),
            ("rebuild", "silver", "--dry-run"),
            ("serving", "init"),
            ("validate", "--new"),
            ("maintain",),
            *GO_ON,
        ),
        [*LINES, *MORE],
        {
            "quality.expectations": "{root}/expectations",
            "serving.url": "sqlite:///{root}/served.db",
            "serving.tables": "[error_log]",
        },
    ),
    FrozenLake("old_forms", old_forms, (*LOOK, *GO_ON), [*LINES, *MORE]),
    FrozenLake("half_a_silver_batch", half_a_silver_batch, (*LOOK, *GO_ON), [*LINES, *MORE]),
    FrozenLake("begun_rebuild", begun_rebuild, (*LOOK, ("rebuild", "silver"), *GO_ON), [*LINES, *MORE]),
    FrozenLake("emptied_rebuild", emptied_rebuild, (*LOOK, *GO_ON), [*LINES, *MORE]),
    FrozenLake(
        "begun_replay",
        begun_replay,
        (*LOOK, ("quarantine", "replay"), *GO_ON),
        [*LINES, b"2017.07.30 14:13:00 ERROR nine", *MORE],
        {"source.format": "{root}/format.yaml"},
    ),
    FrozenLake(
        "growing",
        growing,
        (("status",), ("doctor",), ("prove", "--deep"), *GO_ON, ("prove", "--deep")),
        [*GROWN, *FIRST, *SECOND, *MORE],
        {"source.kind": "tail"},
    ),
    FrozenLake("recovered", recovered, (*LOOK, ("recover",), *GO_ON), [*LINES, *MORE]),
    FrozenLake(
        "topic",
        topic,
        (
            ("status",),
            ("doctor",),
            ("prove",),
            ("trace", f"{TOPIC}/0/1"),
            ("quarantine",),
            ("quarantine", "replay", "--dry-run"),
            ("rebuild", "silver", "--dry-run"),
            ("maintain",),
            ("answer",),
            *LOOK,
            ("prove", "--full"),
            ("recover", "--dry-run"),
        ),
        [*FIRST, *SECOND],
        {
            "source.kind": "kafka",
            "source.bootstrap_servers": "127.0.0.1:1",
            "source.topic": TOPIC,
            "source.kafka": "{{default.api.timeout.ms: '1000', request.timeout.ms: '500'}}",
        },
    ),
)
