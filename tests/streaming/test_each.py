"""Lines of many events: every line counts once, every event is a row, and the proof holds after kills and replays."""

import json
from typing import Any

import pytest
import yaml
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError, StageError
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from tests.support.crashing import crashed
from tests.support.house import House
from tests.support.writers import each_writer

pytestmark = pytest.mark.spark

AT = "2017-07-30T14:09:08Z"
EACH: dict[str, Any] = {
    "json": {"time": "time", "level": "level", "message": "message"},
    "time": "iso8601",
    "default_level": "ERROR",
    "each": "$.Records[*]",
}


def declare(house: House, **more: Any) -> None:
    path = house.root / "trail.yaml"
    path.write_text(yaml.safe_dump({**EACH, **more}, sort_keys=False))
    house.sets = [setting for setting in house.sets if not setting.startswith("source.format")] + [
        f"source.format={path}"
    ]


def line(*messages: str, **outer: Any) -> bytes:
    """Return a line of events; one with the level LOUD for a message in capitals."""
    events = [
        {"time": AT, "message": message, **({"level": "LOUD"} if message.isupper() else {})} for message in messages
    ]
    return json.dumps({**outer, "Records": events}).encode()


def silver(house: House) -> list[tuple[str, int, int]]:
    rows = house.rows("silver/access_log")
    return sorted((row["message"], row["event_index"], row["event_count"]) for row in rows)


def note(house: House) -> CommitMetadata:
    metadata = DeltaLog(LocalFiles(), str(house.table("silver/access_log"))).state().metadata
    assert metadata is not None
    return metadata


def proven(house: House, spark: SparkSession) -> dict[str, str]:
    assert house.doubts(spark) == []
    proof = house.lakehouse(spark).prove(full=True)
    assert [str(link) for link in proof.links if not link.holds] == []
    assert [part for link in proof.links for part in link.uncompared] == []
    return {link.name: link.said for link in proof.links}


FIRST = [line("a", "b", "c", owner="x"), line("d"), line("e", "BAD"), b"broken", b"{}"]
SECOND = [line("f", "g"), line("h", "WORSE", "i")]
ROWS = [("a", 0, 3), ("b", 1, 3), ("c", 2, 3), ("d", 0, 1), ("f", 0, 2), ("g", 1, 2)]


@each_writer
def test_lines_and_events_are_counted_apart(house: House, spark: SparkSession, small_batch: str) -> None:
    house.sets += [f"run.small_batch={small_batch}"]
    declare(house)
    house.write("a.json", *FIRST)
    house.run(spark)
    assert note(house).lines == {"before": 0, "added": 2}
    assert proven(house, spark)["events of silver.access_log"] == "2 lines with events are 4 rows, one for each"
    house.write("b.json", *SECOND)
    (report,) = [batch for batch in house.run(spark) if batch.stage == "silver"]
    assert dict(report.refused) == {"level": 1}
    assert (note(house).rows, note(house).lines) == (4, {"before": 2, "added": 1})
    assert silver(house) == ROWS
    assert sum(house.errors().values()) == 6
    said = proven(house, spark)
    assert said["bronze.access_log → silver.access_log + silver.quarantine"] == (
        "7 rows = 3 in silver.access_log + 4 in silver.quarantine, in 2 batches"
    )
    assert said["events of silver.access_log"] == "3 lines with events are 6 rows, one for each"
    assert str(house.lakehouse(spark).prove().claim) == "7 lines, every one exactly once"
    assert house.run(spark) == []


def test_no_event_is_lost_or_doubled_by_a_crash_at_a_commit(house: House, spark: SparkSession) -> None:
    declare(house)
    for batch, lines in enumerate((FIRST, SECOND)):
        house.write(f"{batch}.json", *lines)
        for table in ("silver/access_log", "silver/quarantine"):
            for before in (True, False):
                step = f"{table}/_delta_log/{batch + 1:020}.json"
                with crashed(spark, step, before=before), pytest.raises((StageError, Py4JJavaError)):
                    house.run(spark)
        house.run(spark)
    assert silver(house) == ROWS
    assert sum(house.errors().values()) == 6
    proven(house, spark)


def test_a_replay_moves_lines_and_a_killed_one_is_finished(house: House, spark: SparkSession) -> None:
    declare(house)
    house.write("a.json", *FIRST)
    house.run(spark)
    declare(house, levels={"LOUD": "WARN"})
    house.write("b.json", line("j", "k"))
    house.run(spark)
    with crashed(spark, "silver/quarantine/_delta_log/*.json", before=True), pytest.raises(Py4JJavaError):
        house.lakehouse(spark).replay()
    assert note(house).lines == {"before": 3, "added": 1}
    replayed = house.lakehouse(spark).replay()
    assert (replayed.finished, replayed.moved) == (1, 0)
    house.run(spark)
    assert ("BAD", 1, 2) in silver(house)
    assert len(silver(house)) == 8
    said = proven(house, spark)
    assert said["events of silver.access_log"] == "4 lines with events are 8 rows, one for each"
    house.recover(spark)
    (house.checkpoint("silver") / "metadata").unlink()
    house.recover(spark)
    house.write("c.json", line("l", "m"))
    house.run(spark)
    assert note(house).lines == {"before": 4, "added": 1}
    proven(house, spark)


def test_a_lake_gets_events_and_loses_them_again(house: House, spark: SparkSession) -> None:
    plain = {name: value for name, value in EACH.items() if name != "each"}
    path = house.root / "trail.yaml"
    path.write_text(yaml.safe_dump(plain))
    house.sets += [f"source.format={path}"]
    house.write("a.json", json.dumps({"time": AT, "message": "plain"}).encode())
    house.run(spark)
    assert "event_index" not in house.rows("silver/access_log")[0]
    assert note(house).lines == {}
    declare(house)
    house.write("b.json", line("a", "b"))
    house.run(spark)
    assert [row["event_index"] for row in house.rows("silver/access_log") if row["message"] == "plain"] == [None]
    path.write_text(yaml.safe_dump(plain))
    house.write("c.json", json.dumps({"time": AT, "message": "plain again"}).encode())
    house.run(spark)
    assert note(house).lines == {"before": 2}
    proven(house, spark)


def test_a_trace_shows_the_row_of_each_event(house: House, spark: SparkSession) -> None:
    declare(house)
    house.write("a.json", *FIRST)
    house.run(spark)
    way = house.lakehouse(spark).trace(f"a.json:{FIRST[0].decode()}")
    assert way.holds
    step = next(candidate for candidate in way.steps if candidate.table == "silver.access_log")
    assert [row["event_index"] for row in step.rows] == [0, 1, 2]
    gold = next(candidate for candidate in way.steps if candidate.table == "gold.error_log")
    assert gold.at.value == "counted"
    _, refused = house.lakehouse(spark).trace(f"a.json:{FIRST[2].decode()}").steps
    assert refused.at.value == "refused"


def test_repeats_and_events_are_refused_together(house: House, spark: SparkSession) -> None:
    declare(house)
    house.sets += ["silver.deduplicate={key: [message], within: 1 day}"]
    with pytest.raises(ConfigError, match="compares lines, but the lines of source"):
        house.run(spark)
