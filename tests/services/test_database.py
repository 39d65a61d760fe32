"""A batch is applied to a real MariaDB once, whatever the server does: called directly, without Spark."""

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType
from sqlalchemy import Connection, Table

from oncelake.common.errors import ConfigError, ReplayError, StopRequested, TargetAwayError, TargetError
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.gold.declaration import GoldTable
from oncelake.serving import position
from oncelake.serving.columns import wrong_columns
from oncelake.serving.database import Database, parse_url
from oncelake.serving.patience import Patience
from oncelake.serving.rows import Rows, sink_table
from oncelake.serving.served import Served
from oncelake.serving.settings import Mode
from oncelake.serving.sink import SinkBatch
from oncelake.serving.sql import SqlSink
from oncelake.serving.tables import create_statements, served_table
from tests.support.house import until
from tests.support.mariadb import MariaDB
from tests.support.postgres import PostgreSQL
from tests.support.proxy import How, Proxy
from tests.support.serving import (
    MINUTES,
    SCHEMA,
    apply,
    at,
    content,
    database,
    make_tables,
    metadata,
    rows,
    run_all,
    served,
)

pytestmark = pytest.mark.database

KEYED = GoldTable.model_validate({"every": "1 minute", "by": {"level": "level"}, "measures": {"n": "count"}})
KEYED_SCHEMA = StructType(
    [StructField("log_time", TimestampType()), StructField("level", StringType()), StructField("n", LongType())]
)
LATER = [datetime(2026, 1, 1, hour) for hour in range(1, 20)]
# every kind of cut; what the server may have committed is added up, so that a second time would show
CUTS: list[tuple[How, Mode]] = [("before", "idempotent"), ("lost", "transactional"), ("torn", "transactional")]


@pytest.fixture(params=["idempotent", "transactional"])
def mode(request: pytest.FixtureRequest) -> Mode:
    mode: Mode = request.param
    return mode


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"d{abs(hash(request.node.name)) % 10**12}"


@pytest.fixture
def table(mariadb: MariaDB, mode: Mode, name: str) -> Served:
    """Return error_log with its first batch."""
    url = mariadb.make_database(name)
    make_tables(mariadb.owner_url(name))
    table = served(url, mode)
    apply(table, {MINUTES[0]: 3}, metadata(0, None, 1))
    return table


@contextmanager
def meanwhile(work: Any) -> Iterator[None]:
    """Run something in another thread during the block."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def patient(said: list[str], seconds: float = 60) -> Patience:
    return Patience(seconds, say=said.append)


def test_a_user_with_only_row_privileges_is_enough(table: Served, mariadb: MariaDB, name: str) -> None:
    table.check(SCHEMA)
    assert apply(table, {MINUTES[0]: 3}, metadata(0, None, 1)).replayed
    assert content(table) == {MINUTES[0]: 3}
    with pytest.raises(TargetError, match="a rebuild needs DELETE too"):
        table.empty()
    kinds = mariadb.sql(f"SELECT column_type, column_key FROM information_schema.columns WHERE table_schema = '{name}'"
                        " AND table_name = 'error_log' ORDER BY ordinal_position")  # fmt: skip
    assert kinds == [("datetime", "PRI"), ("bigint(20)", "")]


def test_the_session_is_strict_and_in_utc(table: Served) -> None:
    session = database(table).transaction(
        lambda connection: connection.exec_driver_sql(
            "SELECT @@sql_mode, @@time_zone, @@tx_isolation, @@character_set_client"
        ).one()
    )
    assert "STRICT_ALL_TABLES" in session[0]
    assert tuple(session)[1:] == ("+00:00", "READ-COMMITTED", "utf8mb4")


@pytest.mark.parametrize("kind", ["mariadb", "postgres"])
def test_a_snapshot_is_consistent_and_a_transaction_reads_committed_rows(
    request: pytest.FixtureRequest, name: str, kind: str
) -> None:
    server: MariaDB | PostgreSQL = request.getfixturevalue(kind)
    url = server.make_database(name)
    make_tables(server.owner_url(name) if isinstance(server, MariaDB) else url)
    reader, writer, numbers = served(url), served(f"{url}?connect_timeout=5"), count()

    def twice(connection: Connection) -> list[int]:
        counts = []
        for _ in range(2):
            counts.append(len(connection.exec_driver_sql("SELECT * FROM error_log").all()))
            number = next(numbers)
            apply(writer, {MINUTES[number]: 1}, metadata(number, number or None, number + 1))
        return counts

    assert database(reader).snapshot(twice) == [0, 0]
    assert database(reader).transaction(twice) == [2, 3]
    assert database(reader).snapshot(twice) == [4, 4]


def test_a_batch_waits_for_a_server_that_is_down(table: Served, mariadb: MariaDB) -> None:
    said: list[str] = []
    mariadb.stop(9)

    def later() -> None:
        until(lambda: bool(said), 20)
        mariadb.start()

    with meanwhile(later):
        assert not apply(table, {MINUTES[1]: 4}, metadata(1, 1, 2), patient(said)).replayed
    assert content(table) == {MINUTES[0]: 3, MINUTES[1]: 4}
    assert "the batch waits for it" in said[0]


def test_the_wait_ends_at_its_limit_or_at_a_stop(table: Served, mariadb: MariaDB) -> None:
    mariadb.stop()
    try:
        with pytest.raises(TargetAwayError, match=r"is unavailable \(waited 1 s\)"):
            apply(table, {MINUTES[1]: 4}, metadata(1, 1, 2), Patience(1))
        stopping = threading.Event()
        threading.Timer(1, stopping.set).start()
        began = time.monotonic()
        with pytest.raises(StopRequested):
            apply(table, {MINUTES[1]: 4}, metadata(1, 1, 2), Patience(None, stopping))
        assert time.monotonic() - began < 15
    finally:
        mariadb.start()
    assert content(table) == {MINUTES[0]: 3}


def test_a_lost_answer_to_commit_is_resolved_by_the_position(table: Served, mariadb: MariaDB) -> None:
    with Proxy(mariadb.port) as proxy:
        through = served(_through(table, proxy.port), table.mode)
        through.state()  # connected before
        written = through.apply(rows({MINUTES[0]: 4}), metadata(1, 1, 2), patient([]), lambda: proxy.lose(1))
        assert (proxy.lost, written.replayed) == (1, True)
    assert content(table) == {MINUTES[0]: 4 if table.mode == "idempotent" else 7}


def test_answers_lost_repeatedly_are_resolved_too(table: Served, mariadb: MariaDB) -> None:
    expected = 3
    with Proxy(mariadb.port) as proxy:
        through = served(_through(table, proxy.port), table.mode)
        for number in range(1, 6):
            lose = partial(proxy.lose, number % 3)  # of the write, and of what follows it
            through.apply(rows({MINUTES[0]: number}), metadata(number, number, number + 1), patient([]), lose)
            expected = number if table.mode == "idempotent" else expected + number
        assert proxy.lost >= 4
    assert content(table) == {MINUTES[0]: expected}


@pytest.mark.parametrize(("how", "mode"), CUTS)
def test_a_batch_survives_a_connection_cut_at_any_statement(
    table: Served, mariadb: MariaDB, how: How, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Every statement: from the greeting to COMMIT, with the session's own statements and the check of the table."""
    monkeypatch.setattr("oncelake.serving.patience.LONGEST_PAUSE", 0.01)
    expected, said = 3, list[str]()
    for number in count(1):
        with Proxy(mariadb.port) as proxy:
            proxy.cut(number - 1, how)
            apply(served(_through(table, proxy.port), table.mode), {MINUTES[0]: number}, _next(number), patient(said))
            expected = number if table.mode == "idempotent" else expected + number
            assert content(table) == {MINUTES[0]: expected}, f"cut at {number}"
            if not proxy.lost:
                break
    assert number > 12, "nothing was cut"
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize(("how", "mode"), CUTS)
def test_a_read_reports_a_connection_cut_at_any_statement_in_one_line(
    table: Served, mariadb: MariaDB, name: str, how: How, caplog: pytest.LogCaptureFixture
) -> None:
    """Every look: a position and rows of one snapshot, a check, CREATE TABLE: what doctor, prove and init do."""
    mariadb.sql(f"GRANT CREATE ON {name}.* TO '{name}'@'%'")

    def rows_in(look: Served) -> object:
        def read(connection: Connection) -> object:
            streamed = connection.execution_options(yield_per=1).exec_driver_sql("SELECT * FROM error_log")
            return list(streamed)

        return database(look).snapshot(read)

    def check(look: Served) -> None:
        look.check(SCHEMA)

    def make(look: Served) -> None:
        run_all(database(look), ["CREATE TABLE IF NOT EXISTS error_log (log_time DATETIME)"])

    asks: tuple[Callable[[Served], object], ...] = (Served.state, rows_in, check, make)
    for number in count():
        with Proxy(mariadb.port) as proxy:
            look, said = served(_through(table, proxy.port), table.mode), list[str]()
            proxy.cut(number, how)
            for ask in asks:
                try:
                    ask(look)
                except TargetAwayError as error:
                    said.append(str(error))
                    ask(look)
            assert len(said) <= proxy.lost
            assert all(re.fullmatch(r"mysql \S+ is unavailable: .*", line) for line in said)  # "." ends at a line's end
        if not proxy.lost:
            break
    assert number > 30, "nothing was cut"
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_deadlock_is_rolled_back_and_retried(
    table: Served, mariadb: MariaDB, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelake.serving.rows.CHUNK", 1)
    apply(table, dict.fromkeys([*MINUTES, *LATER], 1), metadata(1, 1, 2))
    wait, go = threading.Event(), threading.Event()
    said: list[str] = []

    def other() -> None:
        connection = pymysql.connect(host="127.0.0.1", port=mariadb.port, user="root", database=name)
        with connection, connection.cursor() as cursor:
            cursor.execute("SET innodb_lock_wait_timeout = 20")
            for change in "+-":  # enough work that the server rolls back the other transaction
                cursor.execute(f"UPDATE error_log SET log_count = log_count {change} 1 WHERE log_time >= '{LATER[0]}'")
            go.set()
            wait.wait(20)
            cursor.execute(f"UPDATE error_log SET log_count = 1 WHERE log_time = '{MINUTES[0]}'")
            connection.commit()

    def slow() -> Iterator[tuple[Any, ...]]:
        yield MINUTES[0], 10
        yield MINUTES[1], 10  # the first is locked by now
        wait.set()
        time.sleep(0.5)
        yield LATER[0], 10
        yield LATER[1], 10

    with meanwhile(other):
        assert go.wait(20)
        crossing = Rows(("log_time", "log_count"), 4, 1, SCHEMA, slow)
        table.apply(crossing, metadata(2, 2, 3), patient(said), lambda: None)
    rows_now = content(table)
    new = 10 if table.mode == "idempotent" else 11
    assert [rows_now[when] for when in (MINUTES[0], MINUTES[1], LATER[0], LATER[1])] == [new] * 4
    assert any("Deadlock" in line or "Lock wait timeout" in line for line in said), said


def test_a_batch_waits_for_a_lock(table: Served, mariadb: MariaDB, name: str) -> None:
    said: list[str] = []
    connection = pymysql.connect(host="127.0.0.1", port=mariadb.port, user="root", database=name)
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM oncelake_position FOR UPDATE")
        timer = threading.Timer(3, connection.rollback)
        timer.start()
        apply(table, {MINUTES[1]: 4}, metadata(1, 1, 2), patient(said))
        timer.join()
    assert content(table) == {MINUTES[0]: 3, MINUTES[1]: 4}
    assert "Lock wait timeout" in said[0]


def test_a_batch_waits_at_a_connection_limit(table: Served, mariadb: MariaDB, name: str) -> None:
    said: list[str] = []
    mariadb.sql(f"ALTER USER '{name}'@'%' WITH MAX_USER_CONNECTIONS 2")
    database(table).engine.dispose()
    with ExitStack() as held:
        options = database(table).url.translate_connect_args(username="user", database="database")
        for _ in range(2):
            held.enter_context(pymysql.connect(**options))
        with pytest.raises(TargetAwayError, match="max_user_connections"):
            table.state()
        threading.Timer(2, held.close).start()
        apply(table, {MINUTES[1]: 4}, metadata(1, 1, 2), patient(said))
    assert content(table) == {MINUTES[0]: 3, MINUTES[1]: 4}
    assert "max_user_connections" in said[0]


def test_a_batch_waits_while_the_disk_is_full(tmp_path: Path, mode: Mode) -> None:
    room = "--innodb-data-file-path=ibdata1:12M:autoextend:max:{}M"
    said: list[str] = []
    with MariaDB(tmp_path / "small", "--innodb-file-per-table=0", room.format(14)) as server:
        table = served(server.make_database("small"), mode)
        make_tables(server.owner_url("small"))
        many = {datetime.fromtimestamp(minute * 60): 1 for minute in range(20_000_000, 20_100_000)}
        with pytest.raises(TargetAwayError, match="full"):
            apply(table, many, metadata(0, None, 1))
        assert content(table) == {}

        def larger() -> None:
            while not said:
                time.sleep(0.1)
            server.stop()
            server.options[-1] = room.format(200)
            server.start()

        with meanwhile(larger):
            apply(table, many, metadata(0, None, 1), patient(said))
        assert content(table) == many
    assert "full" in said[0]


def test_the_second_of_two_processes_finds_the_batch_applied(table: Served) -> None:
    """A process is suspended within its transaction; its successor waits, then finds the batch applied."""
    stop, done = threading.Event(), threading.Event()

    def fence() -> None:
        stop.set()
        done.wait(5)

    def first() -> None:
        table.apply(rows({MINUTES[0]: 5}), metadata(1, 1, 2), patient([]), fence)

    with meanwhile(first):
        assert stop.wait(20)
        threading.Timer(1.5, done.set).start()
        assert apply(table, {MINUTES[0]: 5}, metadata(1, 1, 2, run="successor"), patient([])).replayed
    assert content(table) == {MINUTES[0]: 5 if table.mode == "idempotent" else 8}


def test_a_late_old_batch_changes_nothing(table: Served) -> None:
    apply(table, {MINUTES[0]: 5}, metadata(1, 1, 2))
    apply(table, {MINUTES[0]: 6}, metadata(2, 2, 3))
    before = content(table)
    with pytest.raises(ReplayError, match="overlap"):
        apply(table, {MINUTES[0]: 5}, metadata(1, 1, 2, run="stopped for long"))
    assert content(table) == before


def test_two_concurrent_first_batches_are_applied_once(
    mariadb: MariaDB, name: str, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = served(mariadb.make_database(name), mode)
    make_tables(mariadb.owner_url(name))
    both, look, written = threading.Barrier(2), position.recorded, list[bool]()

    def recorded(connection: Connection, stage: str, *, lock: bool = False) -> SinkBatch | None:
        last = look(connection, stage, lock=lock)
        if last is None:
            both.wait(20)  # neither has written yet, both have seen nothing
        return last

    refuse, asked = SqlSink.refuse_unknown_rows, list[SqlSink]()

    def unknown_rows(table: SqlSink, connection: Connection, rows: Table) -> None:
        asked.append(table)
        if len(asked) == 2:
            until(lambda: bool(written), 20)  # the other one has committed
        refuse(table, connection, rows)

    def one() -> None:
        written.append(apply(table, {MINUTES[0]: 3}, metadata(0, None, 1), patient([])).replayed)

    monkeypatch.setattr(position, "recorded", recorded)
    monkeypatch.setattr(SqlSink, "refuse_unknown_rows", unknown_rows)
    with meanwhile(one), meanwhile(one):
        pass
    assert sorted(written) == [False, True]
    assert content(table) == {MINUTES[0]: 3}


@pytest.mark.parametrize(("how", "mode"), CUTS)
def test_a_batch_survives_a_cut_at_any_statement_to_postgresql(
    postgres: PostgreSQL, mode: Mode, name: str, how: How, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelake.serving.patience.LONGEST_PAUSE", 0.01)
    table = served(postgres.make_database(name), mode)
    make_tables(database(table).url.render_as_string())
    apply(table, {MINUTES[0]: 3}, metadata(0, None, 1))
    expected = 3
    for number in count(1):
        with Proxy(postgres.port) as proxy:
            proxy.cut(number - 1, how)
            through = served(_through(table, proxy.port), mode)
            apply(through, {MINUTES[0]: number}, _next(number), patient([]))
            expected = number if mode == "idempotent" else expected + number
            assert content(table) == {MINUTES[0]: expected}, f"cut at {number}"
            if not proxy.lost:
                break
    assert number > 12, "nothing was cut"


def test_late_rows_keep_a_connection_with_an_idle_limit(
    table: Served, mariadb: MariaDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelake.serving.rows.KEEP_ALIVE", 0.3)
    monkeypatch.setattr("oncelake.serving.rows.CHUNK", 1)
    said: list[str] = []

    def slow() -> Iterator[tuple[Any, ...]]:
        for minute in MINUTES[1:3]:
            _wait_for_idle_limit(mariadb)
            yield minute, 1

    database(table).engine.dispose()
    mariadb.sql("SET GLOBAL idle_transaction_timeout = 1")
    try:
        late = Rows(("log_time", "log_count"), 2, 1, SCHEMA, slow)
        table.apply(late, metadata(1, 1, 2), patient(said), lambda: None)
    finally:
        mariadb.sql("SET GLOBAL idle_transaction_timeout = 0")
        database(table).engine.dispose()
    assert (content(table), said) == ({MINUTES[0]: 3, MINUTES[1]: 1, MINUTES[2]: 1}, [])


def _wait_for_idle_limit(mariadb: MariaDB) -> None:
    """Wait until the server has cut a transaction that began at the call."""
    idle = pymysql.connect(host="127.0.0.1", port=mariadb.port, user="root")
    idle.begin()
    is_there = f"SELECT id FROM information_schema.processlist WHERE id = {idle.thread_id()}"
    until(lambda: not mariadb.sql(is_there), 20)
    assert not mariadb.sql(is_there)


def test_a_connection_that_is_always_lost_ends_in_an_error_with_advice(
    table: Served, mariadb: MariaDB, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelake.serving.patience.LONGEST_PAUSE", 0.01)
    monkeypatch.setattr("oncelake.serving.patience.LOSSES", 2)

    def lost() -> Iterator[tuple[Any, ...]]:
        for (number,) in mariadb.sql(f"SELECT id FROM information_schema.processlist WHERE user = '{name}'"):
            mariadb.sql(f"KILL {number}")
        yield MINUTES[1], 1

    late = Rows(("log_time", "log_count"), 1, 1, SCHEMA, lost)
    with pytest.raises(TargetError, match=r"2 times in a row at the same statement\..*wait_timeout") as error:
        table.apply(late, metadata(1, 1, 2), patient([]), lambda: None)
    assert not isinstance(error.value, TargetAwayError)
    assert content(table) == {MINUTES[0]: 3}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("log_time DATE PRIMARY KEY, log_count FLOAT", "log_time is DATE, accepted: DATETIME; log_count is FLOAT"),
        ("log_time TIMESTAMP PRIMARY KEY, log_count BIGINT", "log_time is TIMESTAMP, accepted: DATETIME"),
        ("log_time DATETIME PRIMARY KEY, log_count INT", r"log_count is INTEGER\(11\), accepted: BIGINT"),
        ("log_time DATETIME PRIMARY KEY, log_count BIGINT AS (1) STORED", "log_count is generated"),
        ("log_time DATETIME PRIMARY KEY, log_count BIGINT AUTO_INCREMENT, KEY (log_count)", "AUTO_INCREMENT"),
        ("log_time DATETIME PRIMARY KEY DEFAULT now() ON UPDATE now(), log_count BIGINT", "changes ON UPDATE"),
        ("log_time DATETIME PRIMARY KEY ON UPDATE now(), log_count BIGINT", "changes ON UPDATE"),
        ("log_time DATETIME PRIMARY KEY, log_count BIGINT, who INT NOT NULL", "who is NOT NULL without a default"),
        ("log_time DATETIME(3) PRIMARY KEY, log_count BIGINT UNSIGNED NOT NULL, who INT", None),
        ("log_time DATETIME PRIMARY KEY, log_count DECIMAL(30,2), who INT NOT NULL DEFAULT 1", None),
    ],
)
def test_columns_that_cannot_hold_every_value_are_refused_by_name(
    mariadb: MariaDB, name: str, columns: str, said: str | None
) -> None:
    url = mariadb.make_database(name)
    make_tables(mariadb.owner_url(name), "DROP TABLE error_log", f"CREATE TABLE error_log ({columns})")
    table = served(url)
    if said is None:
        apply(table, {MINUTES[0]: 3}, metadata(0, None, 1))
        assert content(table) == {MINUTES[0]: 3}
        return
    with pytest.raises(ConfigError, match=rf"error_log .*{said}.*oncelake rebuild serving\.error_log"):
        table.check(SCHEMA)
    with pytest.raises(ConfigError, match=said):
        apply(table, {MINUTES[0]: 3}, metadata(0, None, 1))
    assert mariadb.sql("SELECT count(*) FROM oncelake_position", name) == [(0,)]


def test_a_key_with_a_prefix_index_is_refused(mariadb: MariaDB, name: str) -> None:
    mariadb.make_database(name)
    owner = Database(parse_url(mariadb.owner_url(name)))
    made = served_table(sink_table("keyed", KEYED, KEYED_SCHEMA))
    run_all(owner, create_statements([made], owner.engine.dialect))
    assert owner.transaction(lambda connection: wrong_columns(connection, made)) == []
    changes = "DROP PRIMARY KEY, ADD PRIMARY KEY (_key(8)), MODIFY level LONGTEXT CHARSET latin1"
    run_all(owner, [f"ALTER TABLE keyed {changes}"])
    wrong = owner.transaction(lambda connection: wrong_columns(connection, made))
    assert wrong[0].startswith("level is LONGTEXT")
    assert "accepted: LONGTEXT of utf8mb4" in wrong[0]
    assert wrong[1:] == ["the primary key uses only 8 characters of _key, accepted: all"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("log_time DATE PRIMARY KEY, log_count REAL", "log_time is DATE, accepted: TIMESTAMP WITHOUT TIME ZONE"),
        ("log_time TIMESTAMPTZ PRIMARY KEY, log_count BIGINT", "log_time is TIMESTAMP WITH TIME ZONE"),
        ("log_time TIMESTAMP PRIMARY KEY, log_count INT", "log_count is INTEGER, accepted: BIGINT"),
        ("log_time TIMESTAMP PRIMARY KEY, log_count BIGINT GENERATED ALWAYS AS IDENTITY", "log_count is generated"),
        ("log_time TIMESTAMP PRIMARY KEY, log_count BIGINT, who INT NOT NULL", "who is NOT NULL without a default"),
        ("log_time TIMESTAMP(0) PRIMARY KEY, log_count NUMERIC NOT NULL, who SERIAL", None),
    ],
)
def test_postgresql_columns_that_cannot_hold_every_value_are_refused(
    postgres: PostgreSQL, name: str, columns: str, said: str | None
) -> None:
    url = postgres.make_database(name)
    make_tables(url, "DROP TABLE error_log", f"CREATE TABLE error_log ({columns})")
    table = served(url)
    if said is None:
        apply(table, {MINUTES[0]: 3}, metadata(0, None, 1))
        assert content(table) == {MINUTES[0]: 3}
        return
    with pytest.raises(ConfigError, match=said):
        table.check(SCHEMA)


def test_a_table_without_transactions_is_refused(table: Served, mariadb: MariaDB, name: str) -> None:
    mariadb.sql("ALTER TABLE error_log ENGINE=Aria", name)
    with pytest.raises(ConfigError, match="ENGINE=InnoDB"):
        table.check(SCHEMA)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (("canary-word", "other-word"), "Access denied .* Check user and password"),
        (("/d", "/x"), "Access denied|Unknown database"),
    ],
)
def test_a_refusal_of_the_server_is_reported_without_the_password(
    table: Served, change: tuple[str, str], match: str
) -> None:
    wrong = database(table).url.render_as_string(hide_password=False).replace(*change)
    with pytest.raises(TargetError, match=match) as error:
        served(wrong).state()
    assert not isinstance(error.value, TargetAwayError)
    assert "-word" not in str(error.value)


def test_certificates_are_checked_if_required(tmp_path: Path) -> None:
    authority, other = _authority(tmp_path / "one"), _authority(tmp_path / "other")
    keys = [f"--ssl-cert={authority / 'server.pem'}", f"--ssl-key={authority / 'server.key'}"]
    with MariaDB(tmp_path / "tls", *keys) as server:
        url = server.make_database("tls")
        make_tables(server.owner_url("tls"))
        safe = Database(parse_url(f"{url}?ssl_ca={authority / 'ca.pem'}"))
        cipher = safe.transaction(lambda c: c.exec_driver_sql("SHOW STATUS LIKE 'Ssl_cipher'").one()[1])
        assert cipher
        with pytest.raises(TargetError, match="signed the server's certificate") as error:
            served(f"{url}?ssl_ca={other / 'ca.pem'}").state()
        assert not isinstance(error.value, TargetAwayError)
    with MariaDB(tmp_path / "plain", "--skip-ssl") as server:
        url = server.make_database("plain")
        with pytest.raises(TargetError) as error:
            served(f"{url}?ssl_ca={authority / 'ca.pem'}").state()
        assert not isinstance(error.value, TargetAwayError)


def _next(number: int) -> CommitMetadata:
    return metadata(number, number, number + 1)


def _through(table: Served, port: int) -> str:
    return database(table).url.set(port=port).render_as_string(hide_password=False)


def _authority(directory: Path) -> Path:
    """Create a certificate authority, and a server certificate for 127.0.0.1 that it signed."""
    directory.mkdir()
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1")
    for command in (
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=authority -days 2",
        "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=127.0.0.1",
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile names",
    ):
        subprocess.run(["openssl", *command.split()], cwd=directory, check=True, capture_output=True)
    return directory


def test_positions_are_readable_in_the_database(table: Served, mariadb: MariaDB, name: str) -> None:
    apply(table, {MINUTES[0]: 5}, metadata(1, 1, 2))
    definitions = mariadb.sql(
        "SELECT stage, source, `partition`, from_position, to_position, query_id, batch_id, total_rows "
        "FROM oncelake_position",
        name,
    )
    source = f"{table.follows}@0d9c0fd4-1111-2222-3333-444455556666"
    assert definitions == [("serving.error_log", source, 0, at(1), at(2), "query", 1, 2)]
