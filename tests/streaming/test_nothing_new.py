"""A run that finds nothing new needs no Spark, and one that could find something, or must refuse, is not cut short."""

import gzip
import json
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from oncelake import ConfigError, LockedError, StateError
from oncelake.engine import before_spark
from oncelake.exactly_once.lease import sole_writer
from oncelake.proof import prove
from tests.support.house import House, error_log_conf

pytestmark = pytest.mark.spark

LINES = [b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:10:00 INFO two", b"broken"]


class SparkStarted(Exception):  # noqa: N818 - an event, not an error
    """The run started Spark.

    Attributes:
        quick: whether the backlog, or the lake of a proof, is small.
    """

    def __init__(self, quick: bool) -> None:
        self.quick = quick


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a lake that holds all lines of its source, beside a copy of it."""
    root = tmp_path_factory.mktemp("ran") / "house"
    root.mkdir()
    house = House.with_error_log(root)
    house.write("a.log", *LINES)
    house.run(spark)
    shutil.copytree(root, root.with_name("copy"))
    return root


@pytest.fixture
def ran(kept: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """Return that lake as it was; a run in it cannot start Spark."""
    shutil.rmtree(kept)
    shutil.copytree(kept.with_name("copy"), kept)
    house = House(kept, kept / "conf" / "local.yaml")

    def start(*_: object, quick: bool, **__: object) -> None:
        raise SparkStarted(quick)

    monkeypatch.setattr("oncelake.engine.open_lake.spark_session", start)
    return house


def once(house: House) -> int:
    return house.lakehouse().run(once=True).batches


def test_a_run_that_finds_nothing_new_starts_no_spark(ran: House) -> None:
    before = ran.versions()
    assert once(ran) == 0
    assert once(ran) == 0
    assert ran.versions() == before


def test_maintenance_is_nothing_new(ran: House, spark: SparkSession) -> None:
    ran.lakehouse(spark).maintain()
    assert once(ran) == 0


def append_an_open_batch(house: House) -> None:
    offsets = house.checkpoint("silver") / "offsets"
    shutil.copy(offsets / "0", offsets / "1")


def change_the_conf(house: House) -> None:
    house.sets.append("silver.ahead=2 days")


def change_the_suite(house: House) -> None:
    suites = house.root / "suites"
    suites.mkdir()
    (suites / "silver.quarantine.json").write_text('{"name": "silver.quarantine", "expectations": []}')
    house.sets.append(f"quality.expectations={suites}")


def change_the_format(house: House) -> None:
    path = house.conf.parent / "formats" / "mine.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        yaml.safe_dump({"pattern": "^(?<time>.{19}) (?<level>[^ ]+) (?<message>.*)$", "time": "yyyy-MM-dd HH:mm:ss"})
    )
    house.sets.append("source.format=mine")


def add_a_gold_table(house: House) -> None:
    conf = error_log_conf()
    conf["gold"]["more"] = conf["gold"]["error_log"]
    house.conf.write_text(yaml.safe_dump(conf))


def make_unreadable_name(house: House) -> None:
    (house.logs / "b:c.log").write_bytes(LINES[0] + b"\n")


def remove_every_file(house: House) -> None:
    for path in house.logs.iterdir():
        path.unlink()


def delete_the_record(house: House) -> None:
    (house.lake / "_preflight.json").unlink()


@pytest.mark.parametrize(
    "change",
    [
        lambda house: house.write("b.log", LINES[0]),
        lambda house: (house.logs / "b.log").symlink_to(house.root / "nowhere"),
        append_an_open_batch,
        change_the_conf,
        change_the_format,
        change_the_suite,
        add_a_gold_table,
        make_unreadable_name,
        remove_every_file,
        delete_the_record,
    ],
    ids=[
        "a new file",
        "a broken link",
        "an open batch",
        "other settings",
        "another format",
        "another suite",
        "another gold table",
        "a file that Spark cannot read",
        "an empty source",
        "no record of the checks",
    ],
)
def test_a_run_that_may_have_something_to_do_starts_spark(ran: House, change: Callable[[House], None]) -> None:
    change(ran)
    with pytest.raises(SparkStarted):
        once(ran)


def test_a_continuous_run_starts_spark_for_any_backlog(ran: House) -> None:
    with pytest.raises(SparkStarted) as started:
        ran.lakehouse().run()
    assert not started.value.quick


def has_small_backlog(house: House) -> bool:
    with pytest.raises(SparkStarted) as started:
        once(house)
    return started.value.quick


def test_few_new_bytes_are_a_small_backlog(ran: House, monkeypatch: pytest.MonkeyPatch) -> None:
    line = LINES[0] + b"\n"
    monkeypatch.setattr(before_spark, "SMALL_BACKLOG", 2 * len(line))
    ran.write("b.log", LINES[0], LINES[0])
    assert has_small_backlog(ran)
    ran.write("c.log", LINES[0])
    assert not has_small_backlog(ran)
    (ran.logs / "c.log").unlink()
    assert has_small_backlog(ran)
    (ran.logs / "c.log.gz").write_bytes(gzip.compress(line))
    assert not has_small_backlog(ran), "a compressed file counts for more than its size"


def test_a_stage_that_is_behind_has_no_small_backlog(ran: House) -> None:
    ran.write("b.log", LINES[0])
    shutil.rmtree(ran.lake / "gold")
    shutil.rmtree(ran.checkpoint("gold.error_log"))
    assert not has_small_backlog(ran)


def test_a_new_lake_with_a_small_source_has_a_small_backlog(ran: House) -> None:
    shutil.rmtree(ran.lake)
    assert has_small_backlog(ran)
    assert not ran.lake.exists(), "nothing is written before the checks"


def test_only_the_proof_of_a_small_lake_gets_the_quick_compiler(ran: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def proven_quickly() -> bool:
        with pytest.raises(SparkStarted) as started:
            ran.lakehouse().prove(full=True)
        return started.value.quick

    assert proven_quickly()
    monkeypatch.setattr(prove, "SMALL_LAKE", 1)
    assert not proven_quickly()


def test_a_configuration_that_the_checks_refused_is_not_taken_for_checked(ran: House, spark: SparkSession) -> None:
    ran.sets.append("gold.error_log.where=level")
    with pytest.raises(ConfigError, match="where must be a condition"):
        ran.run(spark)
    with pytest.raises(SparkStarted):
        once(ran)


def test_a_stage_that_may_not_start_is_refused(ran: House) -> None:
    shutil.rmtree(ran.checkpoint("silver"))
    with pytest.raises(StateError, match="silver: checkpoint lost"):
        once(ran)


def test_an_unfinished_rebuild_is_refused(ran: House) -> None:
    (ran.lake / "_rebuild.json").write_text('{"stages": ["silver"]}')
    with pytest.raises(StateError, match="a rebuild of silver is unfinished"):
        once(ran)


def test_a_table_that_expires_its_transactions_is_refused(ran: House, spark: SparkSession) -> None:
    table = ran.table("gold/error_log")
    spark.sql(
        f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 1 days')"
    )
    with pytest.raises(ConfigError, match="Delta would forget which batches the table holds"):
        once(ran)


def test_a_lake_that_another_process_writes_is_not_looked_at(ran: House, spark: SparkSession) -> None:
    ran.sets.append("run.lock_wait=0 seconds")
    delete_the_record(ran)
    ran.run(spark)
    with sole_writer(None, ran.lakehouse().settings.places(), timedelta(0)), pytest.raises(LockedError):
        once(ran)
    with sole_writer(spark, ran.lakehouse().settings.places(), timedelta(0)), pytest.raises(LockedError):
        once(ran)
    assert once(ran) == 0


def test_a_file_that_changed_after_it_was_read_is_named(ran: House) -> None:
    os.utime(ran.logs / "a.log", (1, 1))
    ran.said.clear()
    assert once(ran) == 0
    assert any("a.log changed after being read" in line for line in ran.said)


def test_the_record_of_the_checks_holds_no_secret(house: House, spark: SparkSession) -> None:
    house.write("a.log", *LINES)
    house.sets.append("spark.conf.spark.hadoop.fs.s3a.secret.key=canary")
    house.run(spark)
    record = house.lake / "_preflight.json"
    first = record.read_text()
    assert json.loads(first).keys() == {"form", "passed"}
    house.sets[-1] = "spark.conf.spark.hadoop.fs.s3a.secret.key=other"
    house.run(spark)
    assert record.read_text() == first, "not even a hash of it"


def test_an_unchanged_record_is_not_written_again(house: House, spark: SparkSession) -> None:
    house.write("a.log", *LINES)
    house.run(spark)
    record = Path(house.lake / "_preflight.json")
    before = record.stat().st_ino
    house.run(spark)
    assert record.stat().st_ino == before
