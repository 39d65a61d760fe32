"""This is where the serving database is reached: one transaction at a time, made again when it can pass.

A transaction is the whole unit: whatever happens in it, it is rolled back and made again on a fresh
connection, and what it reads first tells whether an earlier attempt was committed after all. So the answer
to a COMMIT may be lost, and nothing is applied twice.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, stop_when_event_set
from tenacity.nap import sleep_using_event
from tenacity.stop import stop_any, stop_base
from tenacity.wait import wait_random_exponential

from oncelake.common.errors import ConfigError, StopRequested, TargetAwayError, TargetError
from oncelake.common.wording import duration
from oncelake.serving.trouble import Trouble, advice, judge, of_the_driver, said_by

T = TypeVar("T")

# The drivers that stand behind a URL which names none.
_DRIVERS = {"mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql", "postgresql": "postgresql+psycopg"}
BACKENDS = ("mysql", "mariadb", "postgresql", "sqlite")
# The longest pause between two attempts, in seconds.
LONGEST_PAUSE = 15.0
# A connection that is lost so often in a row at the same statement would be lost for ever.
LOSSES = 10
# Seconds: a connection that is not made by then, an answer that has not come by then. Both can be set in the URL.
_CONNECT, _ANSWER = 10, 120
# A session that is idle so long is ended by the server, so that a process that was stopped in the middle of a
# transaction, or a machine that is gone, does not hold its lock for hours.
_IDLE = 120
# Seconds that a server waits for a reader that is slow, as one is that compares rows with Spark's.
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
class Patience:
    """How long a server that is away is waited for.

    Attributes:
        seconds: the longest wait, None for ever.
        stopping: ends the wait when it is set.
        say: takes what is being waited for, a line at a time.
    """

    seconds: float | None = 0.0
    stopping: threading.Event = field(default_factory=threading.Event)
    say: Callable[[str], None] = lambda _: None


NONE = Patience()


@dataclass
class _Losses:
    """Counts how often in a row the connection was lost at the same statement of a transaction."""

    backend: str
    statement: str | None = None
    count: int = 0

    def pass_by(self, error: BaseException) -> bool:
        """Return whether the transaction may be made again after an error."""
        trouble = judge(error, self.backend) if isinstance(error, DBAPIError) else Trouble.MISTAKE
        if trouble is Trouble.LOST:
            assert isinstance(error, DBAPIError)
            self.count = self.count + 1 if error.statement == self.statement else 1
            self.statement = error.statement
        return trouble is not Trouble.MISTAKE and self.count < LOSSES


@dataclass(frozen=True)
class Database:
    """The database that tables are served from. Its URL holds the password: nothing here shows it."""

    url: URL = field(repr=False)

    @property
    def backend(self) -> str:
        """The kind of server: one of BACKENDS."""
        return self.url.get_backend_name()

    def __str__(self) -> str:
        """Name the database without user and password."""
        if self.backend == "sqlite":
            return f"sqlite {self.url.database}"
        port = f":{self.url.port}" if self.url.port else ""
        return f"{self.backend} {self.url.host or 'localhost'}{port}/{self.url.database}"

    @property
    def engine(self) -> Engine:
        """The pool of connections; one for all that use the same URL in this process."""
        return _engine(self.url)

    def transaction(self, work: Callable[[Connection], T], patience: Patience = NONE) -> T:
        """Do work in one transaction, and again from its start when it clashed or the server went away.

        Args:
            work: takes the connection; called anew for every attempt.
            patience: how long to try.

        Raises:
            TargetAwayError: the server does not serve now; nothing is known of the last attempt.
            TargetError: the server refuses, or ends the connection at the same statement again and again; says
                why and what to do.
            StopRequested: the wait was ended from outside.
        """
        losses = _Losses(self.backend)
        try:
            return self._retrying(patience, losses)(lambda: self._attempt(work))
        except DBAPIError as error:
            if patience.stopping.is_set():
                raise StopRequested(f"ended while waiting for {self}") from error
            if losses.count >= LOSSES:
                said = f"{said_by(error)}, {losses.count} times in a row at the same statement"
                raise TargetError(f"{self}: {said}. {advice(error)}") from None
            waited = f" within {duration(round(patience.seconds))}" if patience.seconds else ""
            raise self._final(error, waited) from None

    def snapshot(self, work: Callable[[Connection], T]) -> T:
        """Read with one connection that sees one moment of the database.

        Raises:
            TargetAwayError: the database does not answer.
            TargetError: it refuses.
        """

        def read(connection: Connection) -> T:
            if self.backend != "sqlite":  # where a transaction sees one moment anyway
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            return work(connection)

        try:
            return self._attempt(read, **{_READS: True})
        except DBAPIError as error:
            raise self._final(error) from None

    def _final(self, error: DBAPIError, waited: str = "") -> TargetError:
        if judge(error, self.backend) is Trouble.MISTAKE:
            return TargetError(f"{self}: {said_by(error)}. {advice(error)}")
        return TargetAwayError(
            f"{self} does not serve{waited}: {said_by(error)}. Nothing is lost or repeated; start again when it does"
        )

    def _attempt(self, work: Callable[[Connection], T], **options: Any) -> T:
        with self._connected() as connection:
            connection.execution_options(**options)
            with connection.begin():
                return work(connection)

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """Connect; all that the driver raises comes as a DBAPIError, and but for a clash ends the connection."""
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

    def _retrying(self, patience: Patience, losses: _Losses) -> Retrying:
        stops: list[stop_base] = [stop_when_event_set(patience.stopping)]
        if patience.seconds is not None:
            stops.append(stop_after_delay(patience.seconds))
        return Retrying(
            retry=retry_if_exception(losses.pass_by),
            stop=stop_any(*stops),
            wait=wait_random_exponential(multiplier=0.2, max=LONGEST_PAUSE),
            sleep=sleep_using_event(patience.stopping),
            before_sleep=self._telling(patience),
            reraise=True,
        )

    def _telling(self, patience: Patience) -> Callable[[RetryCallState], None]:
        """Say what is waited for: at the first failure, then at longer and longer intervals."""
        began, told = time.monotonic(), -1.0

        def tell(state: RetryCallState) -> None:
            nonlocal told
            error = state.outcome.exception() if state.outcome else None
            waited = time.monotonic() - began
            if not isinstance(error, DBAPIError) or (told >= 0 and waited < 2 * told + 1):
                return
            told = waited
            clash = judge(error, self.backend) is Trouble.CLASH
            what = "the transaction is made again" if clash else "the batch waits for it"
            patience.say(f"{self}: {said_by(error)}; {what}, {duration(round(waited))} so far")

        return tell


def keep_alive(connection: Connection) -> None:
    """Use a connection whose transaction waits for something else, so that nobody between ends it as idle."""
    connection.exec_driver_sql("SELECT 1").close()


def parse_url(text: str) -> URL:
    """Read a SQLAlchemy URL; no error shows it, as it may hold a password.

    Raises:
        ValueError: it is no URL, or of a database that cannot be served from.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ValueError("is no SQLAlchemy URL, such as mysql+pymysql://user@host/database") from None
    if url.get_backend_name() not in BACKENDS:
        raise ValueError(f"names {url.get_backend_name()}; served is from {', '.join(BACKENDS)}")
    if not url.database or url.database == ":memory:":
        raise ValueError("names no database: the part after the last /")
    return url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))


@cache
def _engine(url: URL) -> Engine:
    # every transaction ends before its connection goes back, so a roll-back there would only fail where that did
    options: dict[str, Any] = {"hide_parameters": True, "pool_pre_ping": True, "pool_reset_on_return": None}
    options["max_overflow"] = -1  # as many connections as stages
    if url.get_backend_name() != "sqlite":
        options["isolation_level"] = "READ COMMITTED"
        options["paramstyle"] = "format"  # values by their place: see upsert.driver_sql
    url = _with_defaults(url)
    try:
        engine = create_engine(url, **options)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise ConfigError(
            f"serving.url asks for {url.drivername}, whose driver is not installed ({error}); "
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
    """Make every new connection's session ours: strict, in UTC, never idle for hours within a transaction."""
    if backend == "sqlite":

        @event.listens_for(engine, "connect")
        def plain(connection: Any, _: object) -> None:
            connection.isolation_level = None  # or Python's driver would begin transactions by itself, and too late

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
