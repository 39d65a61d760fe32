"""Connections to the serving database: one transaction at a time, retried after errors that can pass.

The transaction is the unit of retry. After such an error it is rolled back and run again on a fresh connection.
It first reads the recorded position, which shows whether an earlier attempt was committed. So the answer to a
COMMIT may be lost, and nothing is applied twice.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from oncelake.common.errors import ConfigError, TargetAwayError, TargetError
from oncelake.serving.patience import NONE, Patience
from oncelake.serving.trouble import Trouble, advice, judge, of_the_driver, said_by

T = TypeVar("T")

# The default driver for a URL that names none.
_DRIVERS = {"mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql", "postgresql": "postgresql+psycopg"}
BACKENDS = ("mysql", "mariadb", "postgresql", "sqlite")
# Seconds to wait for a connection, and for an answer. Both can be set in the URL.
_CONNECT, _ANSWER = 10, 120
# Seconds after which the server ends an idle session. So a process that was paused in the middle of a transaction,
# or a machine that is lost, does not hold its lock for hours.
_IDLE = 120
# Seconds that the server waits for a slow reader, such as one that compares rows with Spark's.
_SLOW_READER = 600
# The execution option of a transaction that only reads.
_READS = "oncelake_reads"
_MYSQL_SESSION = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
    "SET SESSION time_zone = '+00:00'",
    f"SET SESSION wait_timeout = {_IDLE}",
    f"SET SESSION net_write_timeout = {_SLOW_READER}",
)
_POSTGRES_SESSION = (
    "SET SESSION TIME ZONE 'UTC'",
    f"SET SESSION idle_in_transaction_session_timeout = '{_IDLE}s'",
    "SET SESSION lock_timeout = '50s'",
)


@dataclass(frozen=True)
class Database:
    """The database that serves the tables. Its URL holds the password, so nothing here shows the URL."""

    url: URL = field(repr=False)

    @property
    def backend(self) -> str:
        """The kind of server: one of BACKENDS."""
        return self.url.get_backend_name()

    def __str__(self) -> str:
        """Return the database's name without user and password."""
        if self.backend == "sqlite":
            return f"sqlite {self.url.database}"
        port = f":{self.url.port}" if self.url.port else ""
        return f"{self.backend} {self.url.host or 'localhost'}{port}/{self.url.database}"

    @property
    def engine(self) -> Engine:
        """The connection pool; one for each URL in this process."""
        return _engine(self.url)

    def transaction(self, work: Callable[[Connection], T], patience: Patience = NONE) -> T:
        """Run work in one transaction; retry it from the start after a conflict, or when the server was unavailable.

        Args:
            work: called with the connection, once for every attempt.
            patience: how long to retry.

        Raises:
            TargetAwayError: the server is unavailable; it is unknown whether the last attempt was committed.
            TargetError: the server reports an error that waiting does not fix, or the connection is lost at the same
                statement again and again; the message says why and what to do.
            StopRequested: a stop was requested during the wait.
        """
        return patience.keep_trying(lambda: self._once(work))

    def _once(self, work: Callable[[Connection], T]) -> T:
        try:
            with self._connected() as connection, connection.begin():
                return work(connection)
        except DBAPIError as error:
            raise self._final(error) from None

    def snapshot(self, work: Callable[[Connection], T]) -> T:
        """Read one consistent snapshot of the database over one connection.

        Raises:
            TargetAwayError: the database is unavailable.
            TargetError: the database reports an error that waiting does not fix.
        """
        with self.reading() as connection:
            return work(connection)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection that reads one consistent snapshot of the database; see `snapshot`."""
        try:
            with self._connected() as connection:
                connection.execution_options(**{_READS: True})
                with connection.begin():
                    if self.backend != "sqlite":  # a transaction of SQLite always reads one snapshot
                        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                    yield connection
        except DBAPIError as error:
            raise self._final(error) from None

    def _final(self, error: DBAPIError) -> TargetError:
        trouble = judge(error, self.backend)
        if trouble is Trouble.MISTAKE:
            return TargetError(f"{self}: {said_by(error)}. {advice(error)}")
        return TargetAwayError(
            said_by(error),
            str(self),
            clash=trouble is Trouble.CLASH,
            lost_at=error.statement if trouble is Trouble.LOST else None,
            advice=advice(error),
        )

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """Yield a connection; raise driver errors as DBAPIError, and after all but conflicts discard it."""
        try:
            with self.engine.connect() as connection:
                try:
                    yield connection
                except Exception as error:
                    known = of_the_driver(error, self.engine.dialect)
                    clash = known is not None and judge(known, self.backend) is Trouble.CLASH
                    if known is not None and not clash and not connection.invalidated:
                        connection.invalidate(error)
                    raise
        except Exception as error:
            known = of_the_driver(error, self.engine.dialect)
            if known is None or known is error:
                raise
            raise known from error


def keep_alive(connection: Connection) -> None:
    """Use a connection whose transaction waits for something else, so that no server or proxy ends it as idle."""
    connection.exec_driver_sql("SELECT 1").close()


def parse_url(text: str) -> URL:
    """Parse a SQLAlchemy URL; errors do not show the URL, as it may hold a password.

    Raises:
        ValueError: the text is not a URL, or names a database that oncelake does not support.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ValueError("is not a SQLAlchemy URL; write it like mysql+pymysql://user@host/database") from None
    if url.get_backend_name() not in BACKENDS:
        raise ValueError(f"names {url.get_backend_name()}; accepted: {', '.join(BACKENDS)}")
    if not url.database or url.database == ":memory:":
        raise ValueError("names no database, or :memory:; write the database's name or file after the last /")
    return url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))


@cache
def _engine(url: URL) -> Engine:
    # every transaction ends before its connection returns to the pool; another roll-back there could only fail
    options: dict[str, Any] = {"hide_parameters": True, "pool_pre_ping": True, "pool_reset_on_return": None}
    options["max_overflow"] = -1  # no limit: every stage needs a connection
    if url.get_backend_name() != "sqlite":
        options["isolation_level"] = "READ COMMITTED"
        options["paramstyle"] = "format"  # values by position: see upsert.driver_sql
    url = _with_defaults(url)
    try:
        engine = create_engine(url, **options)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise ConfigError(
            f"serving.url needs the driver {url.drivername}, which is not installed ({error}); "
            "install it, or name another driver in the URL"
        ) from None
    _prepare(engine, url.get_backend_name())
    return engine


def _with_defaults(url: URL) -> URL:
    connect = {"connect_timeout": str(_CONNECT)}
    mysql = {**connect, "charset": "utf8mb4", "read_timeout": str(_ANSWER), "write_timeout": str(_ANSWER)}
    wanted = {"sqlite": {"timeout": "30"}, "postgresql": connect}.get(url.get_backend_name(), mysql)
    return url.update_query_dict({key: value for key, value in wanted.items() if key not in url.query})


def _prepare(engine: Engine, backend: str) -> None:
    """Set up the session of every new connection: strict, in UTC, never idle for hours within a transaction."""
    if backend == "sqlite":

        @event.listens_for(engine, "connect")
        def plain(connection: Any, _: object) -> None:
            connection.isolation_level = None  # else Python's driver begins transactions itself, and too late

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN" if connection.get_execution_options().get(_READS) else "BEGIN IMMEDIATE")

        return
    statements = _POSTGRES_SESSION if backend == "postgresql" else _MYSQL_SESSION

    @event.listens_for(engine, "connect")
    def session(connection: Any, _: object) -> None:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        connection.commit()
