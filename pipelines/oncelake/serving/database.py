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
from oncelake.serving import session
from oncelake.serving.trouble import Trouble, advice, judge, of_the_driver, server_message
from oncelake.serving.values import ADDED, DECIMALS, add_decimals, compare_decimals

T = TypeVar("T")

# The default driver for a URL that names none.
_DRIVERS = {"mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql", "postgresql": "postgresql+psycopg"}
_BACKENDS = ("mysql", "mariadb", "postgresql", "sqlite")
# Seconds to wait for a connection, and for an answer. Both can be set in the URL.
_CONNECT, _ANSWER = 10, 120
_ESCAPED = [bytes([code]) for code in b"\0\n\r\x1a\"'\\"]
# The execution option of a transaction that only reads.
_READS = "oncelake_reads"


@dataclass(frozen=True)
class Database:
    """The database that serves the tables. Its URL holds the password, so nothing here shows the URL."""

    url: URL = field(repr=False)

    @property
    def backend(self) -> str:
        """The kind of server, such as `mysql`."""
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

    def transaction(self, work: Callable[[Connection], T]) -> T:
        """Run work in one transaction.

        Raises:
            TargetAwayError: a conflict, or the server is unavailable; it is unknown whether the work was committed.
            TargetError: the server reports an error that waiting does not fix; the message says why and what to do.
        """
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
        trouble, large = judge(error, self.backend), self._too_large(error)
        if large is not None:
            return TargetError(f"{self}: {large}")
        if trouble is Trouble.MISTAKE:
            return TargetError(f"{self}: {server_message(error)}. {advice(error)}")
        return TargetAwayError(
            server_message(error),
            str(self),
            clash=trouble is Trouble.CLASH,
            lost_at=error.statement if trouble is Trouble.LOST else None,
            advice=advice(error),
        )

    def _too_large(self, error: DBAPIError) -> str | None:
        """Return what to do if a row does not fit into a packet: the server ends the connection, or reports 1153."""
        # after error 1153 the connection is closed, so that the roll-back fails too, without a statement
        size = max((_largest(cause) for cause in _behind(error)), default=0)
        if self.backend not in ("mysql", "mariadb") or size < session.SMALLEST_PACKET:
            return None
        try:
            with self._connected() as connection:
                packet = int(connection.exec_driver_sql("SELECT @@max_allowed_packet").scalar_one())
        except (DBAPIError, ConfigError):
            return None
        if size < packet:
            return None
        needed = 1 << (size + session.SMALLEST_PACKET).bit_length()
        return (
            f"a row is too large for max_allowed_packet = {packet}. Raise it on the server to {needed}, such as with "
            f"SET GLOBAL max_allowed_packet = {needed}, then start again. This batch changed nothing"
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
                        connection.invalidate(error)  # guard: broken-connection-dropped
                    raise
        except Exception as error:
            known = of_the_driver(error, self.engine.dialect)
            if known is None or known is error:
                raise
            raise known from error


def keep_alive(connection: Connection) -> None:  # guard: connection-kept-alive
    """Use a connection whose transaction waits for something else, so that no server or proxy ends it as idle."""
    connection.exec_driver_sql("SELECT 1").close()


def _behind(error: BaseException) -> Iterator[DBAPIError]:
    """Yield a database error, and those that were raised before it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, DBAPIError):
            yield cause
        cause = cause.__context__


def _largest(error: DBAPIError) -> int:
    """Return the bytes of the statement that failed, with the largest of its rows."""
    rows = [error.params] if isinstance(error.params, tuple) else error.params or ()
    return len(error.statement or "") + max((_size(row) for row in rows if isinstance(row, tuple)), default=0)


def _size(row: tuple[Any, ...]) -> int:
    """Return the bytes of a row's texts and binaries in a statement of MySQL, where some are written as two."""
    values = [value.encode(errors="replace") if isinstance(value, str) else value for value in row]
    return sum(len(value) + sum(map(value.count, _ESCAPED)) for value in values if isinstance(value, bytes))


def parse_url(text: str) -> URL:
    """Parse a SQLAlchemy URL; errors do not show the URL, as it may hold a password.

    Raises:
        ValueError: the text is not a URL, or names a database that oncelake does not support.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ValueError("is not a SQLAlchemy URL; write it like mysql+pymysql://user@host/database") from None
    if url.get_backend_name() not in _BACKENDS:
        raise ValueError(f"names {url.get_backend_name()}; accepted: {', '.join(_BACKENDS)}")
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
    if url.get_backend_name() == "sqlite":
        _prepare_sqlite(engine)
    else:
        session.prepare(engine, url.get_backend_name())
    return engine


def _with_defaults(url: URL) -> URL:
    connect = {"connect_timeout": str(_CONNECT)}
    if url.get_backend_name() in ("mysql", "mariadb"):
        url = url.update_query_dict({"charset": "utf8mb4"})  # a shorter character set cannot hold every text
    mysql = {**connect, "read_timeout": str(_ANSWER), "write_timeout": str(_ANSWER)}
    defaults = {"sqlite": {"timeout": "30"}, "postgresql": connect}.get(url.get_backend_name(), mysql)
    return url.update_query_dict({key: value for key, value in defaults.items() if key not in url.query})


def _prepare_sqlite(engine: Engine) -> None:
    """Let transactions begin with our own statement, and decimals, which are text, compare and add up as numbers."""

    @event.listens_for(engine, "connect")
    def plain(connection: Any, _: object) -> None:
        connection.isolation_level = None  # else Python's driver begins transactions itself, and too late
        connection.create_collation(DECIMALS, compare_decimals)
        connection.create_function(ADDED, 2, add_decimals, deterministic=True)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN" if connection.get_execution_options().get(_READS) else "BEGIN IMMEDIATE")
