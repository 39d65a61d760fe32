"""Cassandra as a sink: rows are upserted by key, each with its batch's version as Cassandra's write time.

Of two writes to a row Cassandra keeps the one with the later write time, whenever they arrive. So a process that was
paused and wakes up after its successor changes nothing: its rows are older. The last batch is a row of
`oncelake_position`, changed by a lightweight transaction only if its version is the one before.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from typing import Any, ClassVar

from oncelake.common.errors import ConfigError, OvertakenError, TargetAwayError, TargetError, reason
from oncelake.serving.sink import LOG_TIME, Row, Safety, Sink, SinkBatch, SinkColumn, SinkRows, SinkTable

_POSITION = "oncelake_position"
_PORT = "9042"
_ACCEPTED = ("hosts", "port", "keyspace", "user", "password", "consistency")
_CONSISTENCY = ("LOCAL_QUORUM", "QUORUM", "EACH_QUORUM", "ALL")
_TYPES = {
    "float": "double",
    "boolean": "boolean",
    "text": "text",
    "binary": "blob",
    "date": "date",
    "decimal": "decimal",
}
_LONG = 64
# Seconds between two attempts to connect to a node that was away.
_RECONNECT = 1.0
_EPOCH, _MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)


class Cassandra(Sink):
    """A table of a keyspace in Cassandra 4 or 5.

    Options:
        hosts: the nodes to connect to first, separated by commas.
        port: their port; 9042 if it is not set.
        keyspace: an existing keyspace.
        user: the user, if the cluster asks for one.
        password: the user's password.
        consistency: `LOCAL_QUORUM` (the default), `QUORUM`, `EACH_QUORUM` or `ALL`, for rows and for reading them.
    """

    safety: ClassVar[Safety] = Safety.BY_KEY
    public: Collection[str] = frozenset({"hosts", "port", "keyspace", "user", "consistency"})

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        super().__init__(name, options)
        unknown = [option for option in options if option not in _ACCEPTED]
        if unknown:
            raise ConfigError(f"serving.options.{unknown[0]}: accepted are {', '.join(_ACCEPTED)}")
        self.hosts = tuple(host.strip() for host in options["hosts"].split(","))
        self.keyspace = options["keyspace"]
        if not options.get("port", _PORT).isdecimal():
            raise ConfigError("serving.options.port must be a number")
        self.port = int(options.get("port", _PORT))
        self.consistency = options.get("consistency", _CONSISTENCY[0]).upper()
        if self.consistency not in _CONSISTENCY:
            raise ConfigError(f"serving.options.consistency must be one of {', '.join(_CONSISTENCY)}")

    def __str__(self) -> str:
        return f"cassandra {self.hosts[0]}:{self.port}/{self.keyspace}"

    def last(self) -> SinkBatch | None:
        """Read the position so that a transaction that is still open is finished first."""
        with self._session() as session:
            query = self._statement(f"SELECT version, last_batch FROM {_POSITION} WHERE stage = %s", "LOCAL_SERIAL")
            row = session.execute(query, (self._stage,)).one()
        return SinkBatch.from_json(row.last_batch) if row else None

    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        """Upsert the rows, then the position; the position only if its version is the one before.

        A NULL is written, too: it replaces an older value.
        """
        names, places = ", ".join(map(_quoted, table.names)), ", ".join("?" for _ in table.names)
        query = f"INSERT INTO {_quoted(self.name)} ({names}) VALUES ({places}) USING TIMESTAMP {batch.version}"
        self._change(query, table.columns, batch, rows)

    def remove(self, table: SinkTable, batch: SinkBatch, keys: SinkRows) -> None:
        """Delete the rows of the keys with the batch's version as the write time, then store the position.

        Cassandra keeps a deletion for `gc_grace_seconds` (10 days), so an older row that comes late stays removed.
        """
        name, key = _quoted(self.name), _quoted(table.key)
        query = f"DELETE FROM {name} USING TIMESTAMP {batch.version} WHERE {key} = ?"
        self._change(query, table.columns[:1], batch, keys)

    def _change(self, query: str, columns: Sequence[SinkColumn], batch: SinkBatch, rows: SinkRows) -> None:
        """Run a statement for each row, then store the position."""
        from cassandra.concurrent import execute_concurrent_with_args  # noqa: PLC0415 - an extra

        self._must_be_next(batch)
        with self._session() as session:
            prepared = session.prepare(query)
            prepared.consistency_level = self._level(self.consistency)
            for chunk in rows:
                values = [list(map(_value, row, columns)) for row in chunk]
                execute_concurrent_with_args(session, prepared, values, raise_on_first_error=True)
        self._store(batch)

    def empty(self, mark: SinkBatch) -> None:
        """Store the mark first, so that no older batch is stored any more, then remove the rows."""
        last = self.last()
        if last is None or not last.is_same(mark):
            self._store(mark)
        with self._session() as session:
            session.execute(f"TRUNCATE {_quoted(self.name)}", timeout=120)

    def read(self, table: SinkTable) -> Iterator[Row]:
        names = ", ".join(map(_quoted, table.names))
        with self._session() as session:
            query = self._statement(f"SELECT {names} FROM {_quoted(self.name)}", self.consistency)
            rows = [tuple(map(_read, row, table.columns)) for row in session.execute(query)]
        return iter(sorted(rows, key=lambda row: row[0]))

    def make(self, table: SinkTable) -> None:
        with self._session() as session:
            session.execute(
                f"CREATE TABLE IF NOT EXISTS {_POSITION} (stage text PRIMARY KEY, version bigint, last_batch text)",
                timeout=120,
            )
            columns = ", ".join(f"{_quoted(column.name)} {_type(column)}" for column in table.columns)
            session.execute(
                f"CREATE TABLE IF NOT EXISTS {_quoted(self.name)} ({columns}, PRIMARY KEY ({_quoted(table.key)}))",
                timeout=120,
            )
        self.check(table)

    def check(self, table: SinkTable) -> None:
        """Check that the tables exist, and that the served one has its columns, types and key."""
        with self._session() as session:
            query = (
                "SELECT column_name, type, kind FROM system_schema.columns WHERE keyspace_name = %s AND table_name = %s"
            )
            positions, served = (list(session.execute(query, (self.keyspace, name))) for name in (_POSITION, self.name))
        for name, columns in ((_POSITION, positions), (self.name, served)):
            if not columns:
                raise ConfigError(f"there is no table {name} in keyspace {self.keyspace}. Run: oncelake serving init")
        types = {column.column_name: column.type for column in served}
        wrong = [
            f"{column.name} is {types.get(column.name, 'missing')}, accepted: {_type(column)}"
            for column in table.columns
            if types.get(column.name) != _type(column)
        ]
        if wrong:
            raise ConfigError(f"{self.name} in keyspace {self.keyspace}: {'; '.join(wrong)}")
        key = [column.column_name for column in served if column.kind != "regular"]
        if key != [table.key]:
            raise ConfigError(
                f"{self.name} in keyspace {self.keyspace} has the primary key ({', '.join(key)}), "
                f"accepted: ({table.key}). Rows would be stored twice"
            )

    @property
    def _stage(self) -> str:
        return f"serving.{self.name}"

    def _must_be_next(self, batch: SinkBatch) -> None:
        last = self.last()
        if (last.version if last else 0) != batch.version - 1:
            raise OvertakenError(f"{self} has got another batch")

    def _store(self, batch: SinkBatch) -> None:
        text, before = batch.to_json(), batch.version - 1
        with self._session() as session:
            if before == 0:
                query = f"INSERT INTO {_POSITION} (stage, version, last_batch) VALUES (%s, %s, %s) IF NOT EXISTS"
                values: tuple[object, ...] = (self._stage, batch.version, text)
            else:
                query = f"UPDATE {_POSITION} SET version = %s, last_batch = %s WHERE stage = %s IF version = %s"
                values = (batch.version, text, self._stage, before)
            applied = session.execute(self._statement(query, self.consistency), values).was_applied
        if not applied:
            raise OvertakenError(f"{self} has got another batch")

    def _statement(self, query: str, level: str) -> Any:
        from cassandra.query import SimpleStatement  # noqa: PLC0415

        return SimpleStatement(query, consistency_level=self._level(level))

    def _level(self, name: str) -> int:
        from cassandra import ConsistencyLevel  # noqa: PLC0415

        return int(getattr(ConsistencyLevel, name))

    @contextmanager
    def _session(self) -> Iterator[Any]:
        """Yield a session; raise an error that passes as TargetAwayError, and any other as TargetError."""
        try:
            from cassandra import AuthenticationFailed, DriverException, RequestExecutionException  # noqa: PLC0415
            from cassandra.cluster import NoHostAvailable  # noqa: PLC0415
        except ModuleNotFoundError:
            raise ConfigError("serving.sink Cassandra needs cassandra-driver: install oncelake[cassandra]") from None
        try:
            yield _connected(
                self.hosts, self.port, self.keyspace, self.options.get("user"), self.options.get("password")
            )
        except (AuthenticationFailed, RequestExecutionException, DriverException, NoHostAvailable) as error:
            of_hosts = getattr(error, "errors", None) if isinstance(error, NoHostAvailable) else None
            causes = list(of_hosts.values() if isinstance(of_hosts, dict) else of_hosts or ()) or [error]
            refused = next((cause for cause in causes if isinstance(cause, AuthenticationFailed)), None)
            if refused is not None:
                raise TargetError(f"{self}: {reason(refused)}. Check user and password of serving.options") from None
            cause = causes[0] if isinstance(causes[0], Exception) else error
            message = str(error.args[0]) if cause is error and isinstance(error, NoHostAvailable) else reason(cause)
            if type(error).__name__ in _PASSING:
                raise TargetAwayError(message, str(self)) from None
            raise TargetError(
                f"{self}: {message}. Nothing of the batch is recorded; fix it, then start again"
            ) from None


# Errors that pass: a node or the network is away, or too few replicas answer.
_PASSING = {
    "NoHostAvailable", "Unavailable", "Timeout", "ReadTimeout", "WriteTimeout", "OperationTimedOut", "ReadFailure",
    "WriteFailure", "CoordinationFailure", "ConnectionException", "ConnectionShutdown", "ConnectionBusy",
    "CASWriteUnknown"
}  # fmt: skip


@cache
def _connected(hosts: tuple[str, ...], port: int, keyspace: str, user: str | None, password: str | None) -> Any:
    """Return the session of a keyspace; one in this process."""
    from cassandra.auth import PlainTextAuthProvider  # noqa: PLC0415
    from cassandra.cluster import Cluster  # noqa: PLC0415
    from cassandra.policies import ConstantReconnectionPolicy  # noqa: PLC0415

    login = PlainTextAuthProvider(user, password or "") if user else None
    # by default the driver waits up to ten minutes before it tries a node again; oncelake has its own pauses
    retry = ConstantReconnectionPolicy(_RECONNECT, max_attempts=None)
    cluster = Cluster(list(hosts), port=port, auth_provider=login, reconnection_policy=retry)
    return cluster.connect(keyspace)


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


def _type(column: SinkColumn) -> str:
    """Return a type; a timestamp of Cassandra ends at milliseconds, so other times are numbers of microseconds."""
    if column.kind == "integer":
        return "bigint" if column.bits == _LONG else "int"
    return _TYPES.get(column.kind, "timestamp" if column.name == LOG_TIME else "bigint")


def _value(value: Any, column: SinkColumn) -> Any:
    is_micros = column.kind == "time" and column.name != LOG_TIME
    return (value - _EPOCH) // _MICROSECOND if is_micros and value is not None else value


def _read(value: Any, column: SinkColumn) -> Any:
    if value is None:
        return None
    if column.kind == "time" and column.name != LOG_TIME:
        return _EPOCH + value * _MICROSECOND
    return value.date() if column.kind == "date" else value
