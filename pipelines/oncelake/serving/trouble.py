"""Classify database errors: those that pass without help, and those that somebody must fix.

Sources: MySQL's and MariaDB's lists of server and client error codes, PostgreSQL's appendix A, sqlite3's messages.
"""

import re
import struct
from collections.abc import Mapping
from enum import Enum, auto
from traceback import walk_tb
from typing import Any, cast

from sqlalchemy import Dialect
from sqlalchemy.exc import DBAPIError, IntegrityError

from oncelake.serving.tables import POSITION

_POSITION = str(POSITION.name)


class Trouble(Enum):
    """The kinds of database errors.

    Attributes:
        CLASH: two transactions conflict; one of them starts again.
        AWAY: the server is unavailable now.
        LOST: the connection broke, or the server ended the statement. A retry helps, unless the loss repeats.
        MISTAKE: waiting does not help.
    """

    CLASH = auto()
    AWAY = auto()
    LOST = auto()
    MISTAKE = auto()


_MYSQL: Mapping[object, Trouble] = {
    # deadlock, lock wait timeout, MariaDB's "record has changed since last read", a group's roll-back at COMMIT
    **dict.fromkeys((1205, 1213, 1020, 3101), Trouble.CLASH),
    # too many connections in total or for this user; ProxySQL reaches no server
    **dict.fromkeys((1040, 1203, 1226, 9001), Trouble.AWAY),
    **dict.fromkeys((1053, 1077, 1079, 1080, 3032), Trouble.AWAY),  # shutting down, or offline
    1047: Trouble.AWAY,  # a Galera node outside its cluster
    **dict.fromkeys((2002, 2003), Trouble.AWAY),  # the server cannot be reached
    **dict.fromkeys((3, 14, 1021, 1026, 1030, 1114, 1180, 1296), Trouble.AWAY),  # the disk is full or fails to write
    **dict.fromkeys((1037, 1041), Trouble.AWAY),  # out of memory
    **dict.fromkeys((1290, 1792, 1836), Trouble.AWAY),  # read-only: a replica before it takes over
    **dict.fromkeys((2006, 2013, 2014, 2027, 2055, 1152, 1158, 1159, 1160, 1161), Trouble.LOST),  # the connection broke
    **dict.fromkeys((1927, 4031), Trouble.LOST),  # the server ended the connection, or it was idle for too long
    **dict.fromkeys((1317, 1969, 3024), Trouble.LOST),  # the statement was ended, or exceeded its time limit
    0: Trouble.LOST,  # PyMySQL's code for a connection that it has closed
}
# SQLSTATE codes or their prefixes; the first match counts.
_POSTGRES = (
    (Trouble.CLASH, ("40001", "40P01", "55P03")),
    # a connection or a statement was ended, or took too long
    (Trouble.LOST, ("08", "40003", "57014", "57P05", "25P03", "25P04")),
    (Trouble.AWAY, ("53", "57", "58", "25006")),
)
# psycopg raises these without a state when it could not reach the server.
_POSTGRES_STATELESS = ("OperationalError", "InterfaceError", "ConnectionTimeout")
# Errors that arrive as a lost connection, but that waiting does not fix.
_REFUSED = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|SSL is required|doesn't support SSL|does not support SSL"
    r"|does not match host name|password authentication failed|no pg_hba|(role|database) .* does not exist"
    r"|not permitted to log in|permission denied for database|root certificate|private key file|sslmode value",
    re.IGNORECASE,
)
# PyMySQL errors without a number: the protocol is out of sequence, or PyMySQL has closed the connection.
_OUT_OF_STEP = re.compile("Packet sequence number wrong|Already closed", re.IGNORECASE)
# Python errors from within a driver that reads half an answer, or uses a broken connection.
_STREAM_ERRORS = (OSError, EOFError, struct.error, AttributeError, IndexError, AssertionError)
_FILE_ERRORS = (FileNotFoundError, PermissionError, IsADirectoryError)
# A duplicate key: MySQL's number, PostgreSQL's state, SQLite's text.
_TWICE = {1062, "23505"}
_SQLITE_TWICE = "UNIQUE constraint failed"
_SQLITE = ((Trouble.CLASH, "locked|busy"), (Trouble.AWAY, "disk is full|disk I/O error"))


def of_the_driver(error: Exception, dialect: Dialect) -> DBAPIError | None:
    """Return a driver's error as SQLAlchemy's DBAPIError; None if the error came from elsewhere.

    SQLAlchemy wraps only the driver's own error classes, and only while a statement runs. All other errors arrive
    unwrapped: from the session's settings, from the return to the pool, and Python's own errors when a connection
    breaks in the middle of an answer.
    """
    if isinstance(error, DBAPIError):
        return error
    driver = dialect.loaded_dbapi
    own = isinstance(error, driver.Error)  # guard: unwrapped-driver-error
    passed = {str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame, _ in walk_tb(error.__traceback__)}
    if not own and not (isinstance(error, _STREAM_ERRORS) and driver.__name__.partition(".")[0] in passed):
        return None
    broken = not own or dialect.is_disconnect(cast(Any, error), None, None)
    return DBAPIError(None, None, error, hide_parameters=True, connection_invalidated=broken)


def judge(error: DBAPIError, backend: str) -> Trouble:
    """Return the kind of a database error."""
    message = str(error.orig)
    if isinstance(error, IntegrityError) and f"INSERT INTO {_POSITION}" in (error.statement or ""):
        # another process has just written the stage's first position
        return Trouble.CLASH if _codes(error) & _TWICE or _SQLITE_TWICE in message else Trouble.MISTAKE
    if _REFUSED.search(message) or isinstance(error.orig, _FILE_ERRORS):
        return Trouble.MISTAKE
    if isinstance(error.orig, _STREAM_ERRORS):
        trouble = Trouble.LOST
    elif backend == "sqlite":
        trouble = next((kind for kind, words in _SQLITE if re.search(words, message, re.IGNORECASE)), Trouble.MISTAKE)
    else:
        trouble = _postgres(error) if backend == "postgresql" else _MYSQL.get(_code(error), Trouble.MISTAKE)
    if trouble is Trouble.MISTAKE and (error.connection_invalidated or _OUT_OF_STEP.search(message)):
        trouble = Trouble.LOST
    # no statement: the connection failed, or a COMMIT did; the position then shows whether it was applied
    return Trouble.AWAY if trouble is Trouble.LOST and not error.statement else trouble


def server_message(error: DBAPIError) -> str:
    """Return the server's message on one line, without the statement and its values."""
    parts = error.orig.args if error.orig is not None else ()
    if len(parts) == 2 and isinstance(parts[0], int):
        return f"{' '.join(str(parts[1]).split())} (error {parts[0]})"
    return " ".join(str(error.orig).split())


# What to do for an error: error numbers and PostgreSQL's states, a regular expression, advice. The first match counts.
_ADVICE: tuple[tuple[set[object], str, str], ...] = (
    (
        {1044, 1045, 1130, 1698, 2054, "28P01", "28000"},
        "authentication failed|no pg_hba|not permitted to log in|permission denied for database",
        "Check user and password of serving.url, and the user's rights on the database",
    ),
    (
        {1142, 1143, "42501"},
        "",
        "The user needs SELECT, INSERT and UPDATE on the served tables and on oncelake_position; "
        "a rebuild needs DELETE too, and so does a run that refuses a row (on the served table and oncelake_refused)",
    ),
    ({1054, 1146, "42P01", "42703"}, "no such table|no such column", "Create the tables: oncelake serving init"),
    (
        {1049, "3D000"},
        "database .* does not exist|unable to open",
        "Create the database, or change it in serving.url",
    ),
    (
        {1129},
        "",
        "The server blocks this host after too many connection errors. Run FLUSH HOSTS there, then start again",
    ),
    (
        {0, 1317, 1927, 1969, 2006, 2013, 3024, 4031, "57014", "57P05", "25P03", "25P04"},
        "",
        "Find the limit that was reached: on the server (wait_timeout, max_statement_time, statement_timeout), on a "
        "proxy, or read_timeout in serving.url. Raise it, or make batches smaller with run.max_bytes_per_batch",
    ),
    ({1153}, "", "Raise max_allowed_packet on the server"),
    ({1264, 1292, 1366, 1406, "22001", "22003", "22P02"}, "", "The value does not fit its column; nothing was changed"),
    (
        set(),
        "certificate",
        "In serving.url, name the authority that signed the server's certificate (ssl_ca, or sslrootcert)",
    ),
)


def advice(error: DBAPIError) -> str:
    """Return what to do about an error that waiting does not fix."""
    own_codes = _codes(error)
    for codes, words, what in _ADVICE:
        if own_codes & codes or (words and re.search(words, str(error.orig), re.IGNORECASE)):
            return what
    return "This batch changed nothing; fix the error, then start again"


def _codes(error: DBAPIError) -> set[object]:
    return {_code(error), getattr(error.orig, "sqlstate", None)}


def _code(error: DBAPIError) -> object:
    return error.orig.args[0] if error.orig is not None and error.orig.args else None


def _postgres(error: DBAPIError) -> Trouble:
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return Trouble.LOST if type(error.orig).__name__ in _POSTGRES_STATELESS else Trouble.MISTAKE
    return next((kind for kind, states in _POSTGRES if state.startswith(states)), Trouble.MISTAKE)
