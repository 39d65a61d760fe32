"""This is where it is told which errors of a database pass by themselves, and which somebody must mend.

Sources: MySQL's and MariaDB's lists of server and client error codes, PostgreSQL's appendix A, sqlite3's texts.
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
    """What kind of error it is.

    Attributes:
        CLASH: two transactions met; one of them starts again.
        AWAY: the server does not serve now.
        LOST: a statement was sent, and the connection broke or the server ended it. It passes, unless it repeats.
        MISTAKE: waiting changes nothing.
    """

    CLASH = auto()
    AWAY = auto()
    LOST = auto()
    MISTAKE = auto()


_MYSQL: Mapping[object, Trouble] = {
    # deadlock, lock wait time-out, MariaDB's "record has changed since last read", a group's roll-back at COMMIT
    **dict.fromkeys((1205, 1213, 1020, 3101), Trouble.CLASH),
    # too many connections, of all or of this user; ProxySQL reaches no server
    **dict.fromkeys((1040, 1203, 1226, 9001), Trouble.AWAY),
    **dict.fromkeys((1053, 1077, 1079, 1080, 3032), Trouble.AWAY),  # shutting down, or offline
    1047: Trouble.AWAY,  # a Galera node that is not in its cluster
    **dict.fromkeys((2002, 2003), Trouble.AWAY),  # not reached
    **dict.fromkeys((3, 14, 1021, 1026, 1030, 1114, 1180, 1296), Trouble.AWAY),  # the disk is full, or does not write
    **dict.fromkeys((1037, 1041), Trouble.AWAY),  # out of memory
    **dict.fromkeys((1290, 1792, 1836), Trouble.AWAY),  # read-only: a replica that is to take over
    **dict.fromkeys((2006, 2013, 2014, 2027, 2055, 1152, 1158, 1159, 1160, 1161), Trouble.LOST),  # broken on the way
    **dict.fromkeys((1927, 4031), Trouble.LOST),  # this connection was ended, or was idle for too long
    **dict.fromkeys((1317, 1969, 3024), Trouble.LOST),  # this statement was ended, or took longer than it may
    0: Trouble.LOST,  # PyMySQL's word for a connection that it has closed
}
# States, or how they begin; the first that fits.
_POSTGRES = (
    (Trouble.CLASH, ("40001", "40P01", "55P03")),
    # a connection or a statement that was ended, or took too long
    (Trouble.LOST, ("08", "40003", "57014", "57P05", "25P03", "25P04")),
    (Trouble.AWAY, ("53", "57", "58", "25006")),
)
# psycopg says without a state what it could not ask of a server.
_POSTGRES_STATELESS = ("OperationalError", "InterfaceError", "ConnectionTimeout")
# What no waiting repairs although it comes as a lost connection.
_REFUSED = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|SSL is required|doesn't support SSL|does not support SSL"
    r"|does not match host name|password authentication failed|no pg_hba|(role|database) .* does not exist"
    r"|not permitted to log in|permission denied for database|root certificate|private key file|sslmode value",
    re.IGNORECASE,
)
# What PyMySQL says without a number of a stream that is out of step, or that it has closed.
_OUT_OF_STEP = re.compile("Packet sequence number wrong|Already closed", re.IGNORECASE)
# What Python raises within a driver that reads half an answer, or from a connection that is gone.
_STREAM_ERRORS = (OSError, EOFError, struct.error, AttributeError, IndexError, AssertionError)
_FILE_ERRORS = (FileNotFoundError, PermissionError, IsADirectoryError)
# A key that is there already: MySQL's number, PostgreSQL's state, SQLite's words.
_TWICE = {1062, "23505"}
_SQLITE_TWICE = "UNIQUE constraint failed"
_SQLITE = ((Trouble.CLASH, "locked|busy"), (Trouble.AWAY, "disk is full|disk I/O error"))


def of_the_driver(error: Exception, dialect: Dialect) -> DBAPIError | None:
    """Return an error that arose in a database's driver in SQLAlchemy's form; None when it arose elsewhere.

    SQLAlchemy wraps what a driver raises while it runs a statement, and only the driver's own classes. Everything
    else comes as it is: errors of a connection's settings and of its return to the pool, and Python's own errors
    when a stream breaks in the middle of an answer.
    """
    if isinstance(error, DBAPIError):
        return error
    driver = dialect.loaded_dbapi
    own = isinstance(error, driver.Error)
    passed = {str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame, _ in walk_tb(error.__traceback__)}
    if not own and not (isinstance(error, _STREAM_ERRORS) and driver.__name__.partition(".")[0] in passed):
        return None
    broken = not own or dialect.is_disconnect(cast(Any, error), None, None)
    return DBAPIError(None, None, error, hide_parameters=True, connection_invalidated=broken)


def judge(error: DBAPIError, backend: str) -> Trouble:
    """Return what kind of error it is."""
    said = str(error.orig)
    if isinstance(error, IntegrityError) and f"INSERT INTO {_POSITION}" in (error.statement or ""):
        # another process wrote the stage's first position just now
        return Trouble.CLASH if _codes(error) & _TWICE or _SQLITE_TWICE in said else Trouble.MISTAKE
    if _REFUSED.search(said) or isinstance(error.orig, _FILE_ERRORS):
        return Trouble.MISTAKE
    if isinstance(error.orig, _STREAM_ERRORS):
        found = Trouble.LOST
    elif backend == "sqlite":
        found = next((kind for kind, words in _SQLITE if re.search(words, said, re.IGNORECASE)), Trouble.MISTAKE)
    else:
        found = _postgres(error) if backend == "postgresql" else _MYSQL.get(_code(error), Trouble.MISTAKE)
    if found is Trouble.MISTAKE and (error.connection_invalidated or _OUT_OF_STEP.search(said)):
        found = Trouble.LOST
    # without a statement it is the connection that was not made, or a COMMIT: the position settles that one
    return Trouble.AWAY if found is Trouble.LOST and not error.statement else found


def said_by(error: DBAPIError) -> str:
    """Give what the server said, in one line, without the statement and its values."""
    parts = error.orig.args if error.orig is not None else ()
    if len(parts) == 2 and isinstance(parts[0], int):
        return f"{' '.join(str(parts[1]).split())} (error {parts[0]})"
    return " ".join(str(error.orig).split())


# What the server said, by error number, PostgreSQL's state, or words; and what to do about it. The first that fits.
_ADVICE: tuple[tuple[set[object], str, str], ...] = (
    (
        {1044, 1045, 1130, 1698, 2054, "28P01", "28000"},
        "authentication failed|no pg_hba|not permitted to log in|permission denied for database",
        "Check user and password of serving.url, and the user's right to the database",
    ),
    (
        {1142, 1143, "42501"},
        "",
        "The user needs SELECT, INSERT and UPDATE on the served tables and on oncelake_position; "
        "a rebuild needs DELETE too",
    ),
    ({1054, 1146, "42P01", "42703"}, "no such table|no such column", "Make the tables: oncelake serving init"),
    ({1049, "3D000"}, "database .* does not exist|unable to open", "Make the database, or name another in serving.url"),
    ({1129}, "", "The server has had too many broken connections from this host: FLUSH HOSTS there, and start again"),
    (
        {0, 1317, 1927, 1969, 2006, 2013, 3024, 4031, "57014", "57P05", "25P03", "25P04"},
        "",
        "See what ends it: a limit of the server (wait_timeout, max_statement_time, statement_timeout), of a proxy, or "
        "read_timeout in serving.url. Raise that, or make batches smaller: run.max_bytes_per_batch",
    ),
    ({1153}, "", "Let the server take larger packets: max_allowed_packet"),
    ({1264, 1292, 1366, 1406, "22001", "22003", "22P02"}, "", "The value does not fit its column; nothing was changed"),
    (
        set(),
        "certificate",
        "Name the authority that signed the server's certificate in serving.url (ssl_ca, or sslrootcert)",
    ),
)


def advice(error: DBAPIError) -> str:
    """Return what to do about an error that does not pass by itself."""
    found = _codes(error)
    for codes, words, what in _ADVICE:
        if found & codes or (words and re.search(words, str(error.orig), re.IGNORECASE)):
            return what
    return "Nothing was changed by this batch; repair it and start again"


def _codes(error: DBAPIError) -> set[object]:
    return {_code(error), getattr(error.orig, "sqlstate", None)}


def _code(error: DBAPIError) -> object:
    return error.orig.args[0] if error.orig is not None and error.orig.args else None


def _postgres(error: DBAPIError) -> Trouble:
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return Trouble.LOST if type(error.orig).__name__ in _POSTGRES_STATELESS else Trouble.MISTAKE
    return next((kind for kind, states in _POSTGRES if state.startswith(states)), Trouble.MISTAKE)
