"""This is where every error a user can meet is named: one tree, each message says what to do."""

from collections.abc import Mapping
from typing import Any


class OncelakeError(Exception):
    """Raised when a command cannot do what it was asked; the command line prints it as one line."""

    exit_code = 1


class ConfigError(OncelakeError):
    """Raised when a setting, a flag or a declaration is wrong; nothing has been started."""

    exit_code = 2


class SourceError(OncelakeError):
    """Raised when the source cannot be read: it is missing, out of reach, or one of its files is broken."""


class StateError(OncelakeError):
    """Raised when a stage would lose or repeat rows if it started from the state it is in."""


class LockedError(OncelakeError):
    """Raised when another process holds the lake."""


class ReplayError(OncelakeError):
    """Raised when a batch id comes back, or goes on, with another range of the source than was recorded."""


class ReceiptError(OncelakeError):
    """Raised when a write returned but the table did not record its transaction."""


class TargetError(OncelakeError):
    """Raised when the serving database refuses what it is asked; says what to do."""


class TargetAwayError(TargetError):
    """Raised when the serving database does not serve just now; waiting may mend it."""


class GateError(OncelakeError):
    """Raised when a limit holds a batch back before anything of it is written."""


class StageError(OncelakeError):
    """Raised when a stage's query failed; says the stage, the batch, what happened and what to do.

    Attributes:
        told: the same for programs: stage, query, batch_id and position, as far as they are known.
    """

    def __init__(self, message: str, told: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.told = told or {}


def reason(error: BaseException) -> str:
    """Give the first line that an error of a library says."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "it is refused").rstrip(".")


class StopRequested(Exception):  # noqa: N818 - not an error: it ends a query between two batches
    """Raised inside a batch callback to end the query before the batch does any work."""
