"""This is where it is told which errors of a database pass by themselves, and which somebody must mend.

Sources: MySQL's and MariaDB's lists of server and client error codes, PostgreSQL's appendix A, sqlite3's texts.
"""

import re
from enum import Enum, auto

from sqlalchemy.exc import DBAPIError, IntegrityError

from pipelines.serving.tables import POSITION

_POSITION = str(POSITION.name)


class Trouble(Enum):
    """What kind of error it is: a clash of two transactions, a server that does not serve now, or a mistake."""

    CLASH = auto()
    AWAY = auto()
    MISTAKE = auto()


# Deadlock, lock wait time-out, and MariaDB's "record has changed since last read".
_MYSQL_CLASH = {1205, 1213, 1020}
_MYSQL_AWAY = {
    *(1040, 1203, 1226),  # too many connections, of all or of this user
    *(1053, 1077, 1079, 1080, 1927, 4031, 1317),  # shutting down, or this connection was ended
    *(1152, 1158, 1159, 1160, 1161),  # the network between
    *(2002, 2003, 2006, 2013, 2014, 2027, 2055),  # not reached, or lost on the way
    *(3, 14, 1021, 1026, 1030, 1114, 1180, 1296),  # the disk is full, or does not write
    *(1037, 1041),  # out of memory
    *(1290, 1792, 1836),  # read-only: a replica that is to take over
}
_POSTGRES_CLASH = {"40001", "40P01", "55P03"}
_POSTGRES_AWAY = ("08", "53", "57", "58", "25006")
# What no waiting mends although it comes as a lost connection.
_REFUSED = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|SSL is required|doesn't support SSL|does not support SSL"
    r"|password authentication failed|no pg_hba|(role|database) .* does not exist|root certificate",
    re.IGNORECASE,
)
_SQLITE_CLASH = re.compile("locked|busy", re.IGNORECASE)
_SQLITE_AWAY = re.compile("disk is full|disk I/O error", re.IGNORECASE)


def judge(error: DBAPIError, backend: str) -> Trouble:
    """Tell what kind of error it is."""
    said = str(error.orig)
    if isinstance(error, IntegrityError) and _POSITION in (error.statement or ""):
        return Trouble.CLASH  # another process wrote the stage's first position just now
    if _REFUSED.search(said):
        return Trouble.MISTAKE
    found = {"postgresql": _postgres, "sqlite": _sqlite}.get(backend, _mysql)(error)
    if found is Trouble.MISTAKE and error.connection_invalidated:
        return Trouble.AWAY
    return found


def said_by(error: DBAPIError) -> str:
    """Give what the server said, in one line, without the statement and its values."""
    parts = error.orig.args if error.orig is not None else ()
    if len(parts) == 2 and isinstance(parts[0], int):
        return f"{' '.join(str(parts[1]).split())} (error {parts[0]})"
    return " ".join(str(error.orig).split())


# What the server said, by error number, PostgreSQL's state, or words; and what to do about it. The first that fits.
_ADVICE: tuple[tuple[set[object], str, str], ...] = (
    (
        {1044, 1045, 1698, 2054, "28P01", "28000"},
        "authentication failed|no pg_hba",
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
    ({1153}, "", "Let the server take larger packets: max_allowed_packet"),
    ({1264, 1292, 1366, 1406, "22001", "22003", "22P02"}, "", "The value does not fit its column; nothing was changed"),
    (
        set(),
        "certificate",
        "Name the authority that signed the server's certificate in serving.url (ssl_ca, or sslrootcert)",
    ),
)


def advice(error: DBAPIError) -> str:
    """Say what to do about an error that does not pass by itself."""
    found = {_code(error), getattr(error.orig, "sqlstate", None)}
    for codes, words, what in _ADVICE:
        if found & codes or (words and re.search(words, str(error.orig), re.IGNORECASE)):
            return what
    return "Nothing was changed by this batch; mend it and start again"


def _code(error: DBAPIError) -> object:
    return error.orig.args[0] if error.orig is not None and error.orig.args else None


def _mysql(error: DBAPIError) -> Trouble:
    code = _code(error)
    if code in _MYSQL_CLASH:
        return Trouble.CLASH
    # (0, '') is PyMySQL's word for a connection that it has closed
    return Trouble.AWAY if code in _MYSQL_AWAY or code == 0 else Trouble.MISTAKE


def _postgres(error: DBAPIError) -> Trouble:
    state = getattr(error.orig, "sqlstate", None)
    if state in _POSTGRES_CLASH:
        return Trouble.CLASH
    lost = state is None and type(error.orig).__name__ in ("OperationalError", "ConnectionTimeout")
    return Trouble.AWAY if lost or (state or "").startswith(_POSTGRES_AWAY) else Trouble.MISTAKE


def _sqlite(error: DBAPIError) -> Trouble:
    if _SQLITE_CLASH.search(str(error.orig)):
        return Trouble.CLASH
    return Trouble.AWAY if _SQLITE_AWAY.search(str(error.orig)) else Trouble.MISTAKE
