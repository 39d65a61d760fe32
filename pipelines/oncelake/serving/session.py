"""The settings of a session with the serving database: set before the first statement, or refused by name and value.

A server, a database or a user can have other defaults than the ones that oncelake's statements are written for.
Sources: the chapters on server system variables of MySQL and MariaDB, and on client settings of PostgreSQL.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sqlalchemy import Dialect, Engine, event

from oncelake.common.errors import ConfigError, reason

# Seconds after which the server ends an idle session. So a process that was paused in the middle of a transaction,
# or a machine that is lost, does not hold its lock for hours.
_IDLE = 120
# Seconds that the server waits for a slow reader, such as one that compares rows with Spark's.
_SLOW_READER = 600
# The smallest packet that the driver's statements of many rows fit into: PyMySQL fills 1,024,000 bytes.
SMALLEST_PACKET = 1 << 20
# The variables of a session; those that a server does not have are left out.
_MYSQL: Mapping[str, str | int] = {
    # how statements are written: quotes, backslashes, blanks, dates, errors instead of changed values
    "sql_mode": "STRICT_ALL_TABLES,STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,"
    "NO_ENGINE_SUBSTITUTION",
    "sql_quote_show_create": 1,
    "sql_auto_is_null": 0,
    # text and times
    "character_set_client": "utf8mb4",
    "character_set_connection": "utf8mb4",
    "character_set_results": "utf8mb4",
    "time_zone": "+00:00",
    # transactions: COMMIT ends one and begins no other; a log of statements does not allow READ COMMITTED
    "completion_type": "NO_CHAIN",
    "tx_read_only": 0,
    "transaction_read_only": 0,
    "binlog_format": "ROW",
    # rows: a statement may change or read all of a table, and sorts whole keys
    "sql_safe_updates": 0,
    "sql_big_selects": 1,
    "max_sort_length": 1024,
    # waiting
    "wait_timeout": _IDLE,
    "net_write_timeout": _SLOW_READER,
    "idle_transaction_timeout": _IDLE,
    "idle_write_transaction_timeout": _IDLE,
    "idle_readonly_transaction_timeout": _IDLE,
}
_POSTGRES: Mapping[str, str] = {
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "bytea_output": "hex",
    "extra_float_digits": "1",  # a float is read as the number that was stored
    "DateStyle": "ISO, YMD",
    "TimeZone": "UTC",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "row_security": "off",  # an error, instead of rows that a policy hides
    "idle_in_transaction_session_timeout": f"{_IDLE}s",
    "lock_timeout": "50s",
}
_PACKET = "max_allowed_packet"
# Errors that say that this user may not change a setting, or not to this value.
_NOT_ALLOWED = {1227, 1229, 1231, 1232, 1238, "42501", "22023", "42704", "55P02"}
_BY_OTHERS = "Set it for the user or on the server"
# Encodings that keep every text byte by byte.
_ENCODINGS = ("UTF8", "SQL_ASCII")


def prepare(engine: Engine, backend: str) -> None:
    """Set up every new session before anything else uses it; SQLAlchemy reads some settings at its first connection."""
    fit = _fit_postgres if backend == "postgresql" else _fit_mysql

    @event.listens_for(engine, "do_connect")
    def connect(dialect: Dialect, _: object, positional: list[Any], named: dict[str, Any]) -> Any:
        connection: Any = dialect.connect(*positional, **named)
        try:
            with connection.cursor() as cursor:
                fit(cursor, dialect)
            connection.commit()
        except BaseException:
            with suppress(Exception):  # the connection may be the one that broke
                connection.close()
            raise
        return connection


def _fit_mysql(cursor: Any, dialect: Dialect) -> None:
    names = ", ".join(f"'{name}'" for name in (*_MYSQL, "log_bin", _PACKET))
    cursor.execute("SET SESSION sql_select_limit = 18446744073709551615")  # it limits the next statement too
    cursor.execute(f"SHOW SESSION VARIABLES WHERE Variable_name IN ({names})")
    current = {str(name): str(value) for name, value in cursor.fetchall()}
    if int(current[_PACKET]) < SMALLEST_PACKET:
        raise _refused(_PACKET, current[_PACKET], f"at least {SMALLEST_PACKET}", "Raise it on the server")
    for name, required in _MYSQL.items():
        if name not in current or _is_set(name, current, required):  # guard: mysql-session-settings
            continue
        try:
            cursor.execute(f"SET SESSION {name} = {_literal(required)}")
        except dialect.loaded_dbapi.Error as error:
            if error.args[0] not in _NOT_ALLOWED:
                raise
            # guard: unchangeable-setting-named
            raise _refused(name, current[name], required, f"{_BY_OTHERS} (it says: {error.args[-1]})") from None


def _is_set(name: str, current: Mapping[str, str], required: str | int) -> bool:
    if name == "binlog_format":
        return current.get("log_bin") != "ON" or current[name] in ("ROW", "MIXED")
    return {"ON": "1", "OFF": "0"}.get(current[name], current[name]) == str(required)


def _literal(value: str | int) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def _fit_postgres(cursor: Any, dialect: Dialect) -> None:
    for name, required in _POSTGRES.items():  # guard: postgres-exact-session
        try:
            cursor.execute(f"SET SESSION {name} = {_literal(required)}")
        except dialect.loaded_dbapi.Error as error:
            if getattr(error, "sqlstate", None) not in _NOT_ALLOWED:
                raise
            cursor.execute("ROLLBACK")
            cursor.execute(f"SHOW {name}")
            (current,) = cursor.fetchone()
            raise _refused(name, current, required, f"{_BY_OTHERS} (it says: {reason(error)})") from None
    cursor.execute("SHOW server_encoding")
    (encoding,) = cursor.fetchone()
    if encoding not in _ENCODINGS:
        what = "Create the database with ENCODING 'UTF8' TEMPLATE template0"
        raise _refused("server_encoding", encoding, " or ".join(_ENCODINGS), what)


def _refused(name: str, current: object, required: object, what: str) -> ConfigError:
    return ConfigError(f"the serving database has {name} = {current}, but oncelake needs {required}. {what}")
