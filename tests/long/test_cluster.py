"""The guarantee on a Spark cluster: tasks run on workers that die, the driver dies, and every line counts once."""

import os
from collections.abc import Iterator

import pytest

from oncelake.lab.demo.made_log import lines_of, write_late_and_broken, write_log
from tests.support.broker import Broker
from tests.support.cluster import Cluster
from tests.support.event_log import busy
from tests.support.house import House, kill_group
from tests.support.masking import pseudonym
from tests.support.processes import SMALL, newest, wait_for

pytestmark = [pytest.mark.chain, pytest.mark.kafka, pytest.mark.long]

# executors that live for seconds compile quickly
QUICKLY = "spark.conf.spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1"
KEY = "canary-key-of-a-cluster-0123456789"
RECORDS = r"""
pattern: '^(?<time>\S+ \S+) (?<level>\S+) (?<message>.*)$'
time: yyyy-MM-dd HH:mm:ss
record: {starts: '^\d{4}-'}
"""
STAGES = ("bronze", "silver", "gold/error_log")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    os.environ["CLUSTER_MASK_KEY"] = KEY  # workers hand their environment on to executors
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def test_killed_workers_and_a_killed_driver_lose_nothing(cluster: Cluster, house: House) -> None:
    house.sets = [*SMALL, *cluster.sets, QUICKLY]
    write_log(house.logs, 1_000)
    process = house.start("run")
    for number, stage in enumerate(STAGES):
        plans = house.checkpoint(stage) / "offsets"
        before = newest(plans)
        write_late_and_broken(house.logs / f"more-{number}", late=20, broken=6, seed=number)
        wait_for(process, lambda plans=plans, before=before: newest(plans) > before)  # type: ignore[misc]
        cluster.kill_worker(number % 2)
        cluster.start_worker(number % 2)
    commits = house.checkpoint("gold/error_log") / "commits"
    before = newest(commits)
    write_late_and_broken(house.logs / "last", late=20, broken=6, seed=9)
    wait_for(process, lambda: newest(commits) > before)
    kill_group(process)
    house.call("run", "--once")
    directories = [path for path in house.logs.rglob("*") if path.is_dir()]
    house.must_be([line for directory in (house.logs, *directories) for line in lines_of(directory)])


def test_records_of_several_lines_are_masked_by_the_executors(cluster: Cluster, house: House) -> None:
    (house.root / "records.yaml").write_text(RECORDS)
    house.sets = [*SMALL, *cluster.sets, QUICKLY, f"source.format={house.root}/records.yaml"]
    house.sets += ["source.mask={key_variable: CLUSTER_MASK_KEY, rules: [{find: email, action: hash}]}"]
    mail, trace = b"ada@mask.example", b"java.lang.Error: of "
    for number in range(4):
        head = b"2017-07-30 14:09:%02d ERROR record %d" % (number, number)
        house.write(f"{number}.log", *[head, trace + mail, b"\tat a.B.c(D.java:7)"] * 50)
    house.call("run", "--once")
    rows = house.rows("bronze/access_log")
    assert len(rows) == 200
    assert all(trace + pseudonym(KEY, mail) in row["value"] and mail not in row["value"] for row in rows)
    assert sum(house.errors().values()) == 200
    assert '"holds": true' in house.call("prove", "--deep", "--json")


def test_both_workers_process_a_backlog_from_kafka(
    cluster: Cluster, house: House, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write_log(house.logs, 2_000)
    lines = list(lines_of(house.logs))
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        broker.make_topic("alog", partitions=4)
        for partition in range(4):
            broker.send("alog", lines[partition::4], partition)
        source = ["source.kind=kafka", f"source.bootstrap_servers={broker.servers}", "source.topic=alog"]
        house.sets = [*source, *cluster.sets, QUICKLY]
        house.call("run", "--once")
        by_stage, by_executor = busy(cluster.event_log(), house.lake / "_checkpoints")
        house.must_be(lines)
        assert '"holds": true' in house.call("prove", "--json")
    assert set(by_executor) == {"0", "1"}
    assert min(by_executor.values()) > 0.1
    assert {"bronze", "silver", "gold/error_log"} <= by_stage.keys()
