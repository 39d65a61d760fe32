"""Small batches on S3 are committed by delta-rs: once, at the expected version, and with few requests."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import BytesIO
from types import SimpleNamespace
from typing import IO, Any, cast
from unittest import mock

import pyarrow
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyarrow import parquet

from oncelake.common.spark import s3
from oncelake.common.spark.rows import Collected
from oncelake.exactly_once import upkeep
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import TableFiles
from oncelake.exactly_once.write import TableWriter, no_fence
from oncelake.exactly_once.writers import Access, MergeSql, TableChange, VersionTakenError
from oncelake.exactly_once.writers.local import LocalTable
from tests.support.committed import append_by
from tests.support.memory import metadata
from tests.support.s3_house import variables
from tests.support.s3_server import BUCKET, Server

AT = f"s3://{BUCKET}/lake/gold/error_log"
LOG = "lake/gold/error_log/_delta_log/"
MINUTE = datetime(2026, 11, 30, tzinfo=UTC)
SCHEMA = pyarrow.schema([("log_time", pyarrow.timestamp("us", "UTC")), ("counted", pyarrow.int64())])
SQL = MergeSql("gold.log_time = batch.log_time", {"counted": "gold.counted + batch.counted"})
OF_ANOTHER = metadata(0, query_id="of another checkpoint", run="other")


class ServerFiles(TableFiles):
    """The files of a bucket, read and written without requests: a Spark would make its own."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def _key(self, path: str) -> str:
        return path.removeprefix(f"s3://{BUCKET}/")

    def read(self, path: str) -> str | None:
        stored = self._server.get(self._key(path))
        return None if stored is None else stored.content.decode()

    def names(self, path: str) -> list[str]:
        return [name.rpartition("/")[2] for name in self._server.names(f"{self._key(path)}/")]

    def is_sound(self, path: str) -> bool:
        del path
        return True

    def write(self, path: str, text: str) -> None:
        self._server.put(self._key(path), text.encode(), {}, absent=False, tag=None)

    write_new = write

    @contextmanager
    def creating(self, path: str) -> Iterator[IO[bytes]]:
        file = BytesIO()
        yield file
        self._server.put(self._key(path), file.getvalue(), {}, absent=True, tag=None)

    def modified(self, path: str) -> float | None:
        stored = self._server.get(self._key(path))
        return None if stored is None else stored.time.timestamp()

    def move(self, path: str, to: str) -> None:
        raise NotImplementedError

    def remove(self, path: str) -> None:
        self._server.remove(self._key(path))


def options(server: Server) -> dict[str, str]:
    return {**variables(server), "AWS_ALLOW_HTTP": "true", "AWS_CONDITIONAL_PUT": "etag"}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        DeltaTable.create(AT, SCHEMA, storage_options=options(server))
        yield server


def access(server: Server) -> Access:
    files = ServerFiles(server)
    return Access(files, DeltaLog(files, AT), options(server))


def table(server: Server) -> LocalTable:
    return LocalTable(AT, "log_time", access=access(server))


def writer(server: Server) -> TableWriter:
    reached = access(server)
    return TableWriter(
        AT,
        reached.commit_log,
        reached.commit_log.state(),
        every_batch=True,
        engines=[LocalTable(AT, "log_time", access=reached)],
    )


def rows(*minutes: int) -> Collected:
    times = [MINUTE + timedelta(minutes=minute) for minute in minutes]
    return Collected(pyarrow.table([times, [1] * len(times)], schema=SCHEMA), cast(Any, None))


def held(server: Server) -> list[int]:
    """Return the counts in the table; delta-rs itself would read files without letting the server answer."""
    found = list[int]()
    for uri in DeltaTable(AT, storage_options=options(server)).file_uris():
        stored = server.get(uri.removeprefix(f"s3://{BUCKET}/"))
        assert stored is not None
        found += parquet.read_table(BytesIO(stored.content))["counted"].to_pylist()
    return sorted(found)


def change(of: LocalTable, how: str, *minutes: int) -> TableChange:
    """Return a change of the version that is the newest now."""
    assert of.snapshot(SCHEMA.names) is not None
    made = of.append(rows(*minutes)) if how == "append" else of.merge(rows(*minutes), lambda _: SQL)
    assert made is not None
    return made


def once(hit: Callable[[str], bool]) -> Callable[[str], bool]:
    left = [True]

    def loses(key: str) -> bool:
        return bool(left and hit(key) and left.pop())

    return loses


HOW = pytest.mark.parametrize("how", ["append", "merge"])


@HOW
def test_a_batch_is_committed_once_though_the_answer_is_lost(server: Server, how: str) -> None:
    server.loses = once(lambda key: key == f"{LOG}{1:020}.json")
    first = table(server)
    assert change(first, how, 1)(metadata(0), lambda _=None: 0, no_fence)
    assert server.loses(f"{LOG}{1:020}.json") is False, "the answer was lost"
    assert change(first, how, 1)(metadata(1), lambda _=None: 1, no_fence)
    assert held(server) == ([1, 1] if how == "append" else [2])


@HOW
def test_of_two_drivers_at_one_version_one_wins(server: Server, how: str) -> None:
    one, other = table(server), table(server)
    changes = [(change(one, how, 1), metadata(0)), (change(other, how, 1), OF_ANOTHER)]

    def commit(change: TableChange, of: CommitMetadata) -> bool:
        try:
            return change(of, lambda _=None: 0, no_fence)
        except VersionTakenError:
            return False

    with ThreadPoolExecutor(2) as pool:
        won = [future.result() for future in [pool.submit(commit, *each) for each in changes]]
    assert sorted(won) == [False, True]
    assert held(server) == [1]


@HOW
def test_a_commit_of_another_driver_under_the_same_name_is_not_taken_for_a_lost_answer(
    server: Server, how: str
) -> None:
    late = change(table(server), how, 1)
    append_by(table(server), rows(2), OF_ANOTHER)
    with pytest.raises(VersionTakenError, match=r"version 1 of .* is taken"):
        late(metadata(0), lambda _=None: 0, no_fence)
    assert held(server) == [1]


def test_a_commit_that_is_refused_is_named_without_a_secret(server: Server) -> None:
    late = change(table(server), "append", 1)
    server.refuses = lambda command, key: (403, "AccessDenied") if command == "PUT" and key.startswith(LOG) else None
    with pytest.raises((DeltaError, OSError)) as raised:
        late(metadata(0), lambda _=None: 0, no_fence)
    server.refuses = lambda *_: None
    secret = variables(server)["AWS_SECRET_ACCESS_KEY"]
    assert secret not in f"{raised.value}{raised.value!r}{access(server)!r}"
    assert held(server) == []


@HOW
def test_a_batch_takes_few_requests(server: Server, how: str) -> None:
    chain, taken = writer(server), list[int]()
    for batch in range(4):
        before = len(server.requests)
        if how == "append":
            chain.append(rows(batch), metadata(batch))
        else:
            chain.merge(rows(batch % 2), metadata(batch), lambda _: SQL)
        held(server)  # the upkeep of the batch has ended when the next one begins
        taken.append(len(server.requests) - before)
    opening = len(server.requests)
    held(server)
    opening = len(server.requests) - opening
    most = 8 if how == "append" else 16
    assert max(taken[1:]) - opening <= most, [number - opening for number in taken]


def test_upkeep_on_a_store_joins_files_and_writes_a_checkpoint(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("EVERY", 5), ("FEW", 3)):
        monkeypatch.setattr(upkeep, name, value)
    engine = LocalTable(AT, access=access(server))
    chain = TableWriter(
        AT, DeltaLog(ServerFiles(server), AT), access(server).commit_log.state(), every_batch=True, engines=[engine]
    )
    for batch in range(12):
        chain.append(rows(batch), metadata(batch))
    assert engine.snapshot(SCHEMA.names) is not None
    assert server.get(f"{LOG}_last_checkpoint") is not None
    assert len(DeltaTable(AT, storage_options=options(server)).file_uris()) < 6
    assert held(server) == [1] * 12


class AwayFiles(ServerFiles):
    """The files of a bucket that cannot be reached for one thing, as Hadoop reports it."""

    def __init__(self, server: Server, fails: str) -> None:
        super().__init__(server)
        self._fails = fails

    def _answer(self, what: str) -> None:
        if what == self._fails:
            raise Py4JError("the store does not answer")

    def read(self, path: str) -> str | None:
        self._answer("read" if path.endswith("_last_checkpoint") else "")
        return super().read(path)

    def write_new(self, path: str, text: str) -> None:
        self._answer("write_new")
        super().write_new(path, text)

    def modified(self, path: str) -> float | None:
        self._answer("modified")
        return super().modified(path)


@pytest.mark.parametrize("fails", ["read", "write_new", "modified"])
def test_a_store_that_is_away_at_the_upkeep_fails_no_batch(
    server: Server, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    monkeypatch.setattr(upkeep, "EVERY", 2)
    reached = access(server)
    engine = LocalTable(AT, needed=lambda: 0, access=replace(reached, files=AwayFiles(server, fails)))
    chain = TableWriter(AT, reached.commit_log, reached.commit_log.state(), every_batch=True, engines=[engine])
    for batch in range(5):
        chain.append(rows(batch), metadata(batch))
    assert engine.snapshot(SCHEMA.names) is not None
    assert held(server) == [1] * 5


def spark(**settings: str) -> Any:
    ours = s3.conf(s3.Places(sources=["s3://bucket/logs"]), {})
    conf = {"spark.delta.logStore.s3.impl": "oncelake.S3LogStore", **ours, **settings}
    return SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: SimpleNamespace(getAll=conf.items)))


@pytest.mark.parametrize(
    ("settings", "environment"),
    [
        ({"spark.hadoop.fs.s3a.access.key": "other"}, {}),
        ({"spark.hadoop.fs.s3a.endpoint": "http://other"}, {}),
        ({"spark.delta.logStore.s3.impl": "io.delta.storage.S3DynamoDBLogStore"}, {}),
        ({}, {"AWS_S3_LOCKING_PROVIDER": "dynamodb"}),
        ({}, {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}),
        ({}, {"aws_copy_if_not_exists": "header: a: b"}),
    ],
)
def test_spark_commits_where_delta_rs_would_find_another_store_or_commit_in_another_way(
    settings: dict[str, str], environment: dict[str, str]
) -> None:
    set_by_spark = {"spark.hadoop.fs.s3a.vectored.read.max.merged.size": "2M"}
    with mock.patch.dict("os.environ", {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}):
        found = s3.delta_rs_options(spark(**set_by_spark), "s3://bucket/lake")
        assert found is not None
        assert (found["AWS_CONDITIONAL_PUT"], found["AWS_ALLOW_HTTP"]) == ("etag", "true")
        with mock.patch.dict("os.environ", environment):
            assert s3.delta_rs_options(spark(**settings), "s3://bucket/lake") is None
