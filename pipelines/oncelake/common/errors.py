"""The errors that a user can see: one tree of classes; each message says what to do."""

from collections.abc import Mapping
from typing import Any

# What Python answers to Java begins with this if the answer is an error of this module, which says all that is needed.
REFUSED = "oncelake refuses: "


class OncelakeError(Exception):
    """Raised when a command cannot do its work; the command line prints the message without a traceback."""

    exit_code = 1


class ConfigError(OncelakeError):
    """Raised when a setting, a flag or a declaration is invalid; nothing has been started."""

    exit_code = 2


class SourceError(OncelakeError):
    """Raised when the source cannot be read: it is missing or unreachable, or one of its files is broken."""


class StateError(OncelakeError):
    """Raised when a command would lose or repeat rows in the current state of the lake."""


class LockedError(OncelakeError):
    """Raised when another process holds the lake's lock."""


class ReplayError(OncelakeError):
    """Raised when a batch is replayed with another range than recorded, or does not follow the last recorded batch."""


class ReceiptError(OncelakeError):
    """Raised after a write if the table lacks the expected commit, or has other rows than the batch should give."""


class TargetError(OncelakeError):
    """Raised when the serving database, or another sink, rejects a request; the message says what to do."""


class TargetAwayError(TargetError):
    """Raised when the serving database, or another sink, is unavailable at the moment; waiting may help.

    Attributes:
        said: what it reported, in one line.
        place: its name in messages; oncelake adds the name of a sink that does not give it.
        clash: True if two writers were in each other's way, and one of them starts again.
        lost_at: the statement at which the connection was lost; losing it there again and again ends the wait.
        advice: what to do then.
        waited: how long oncelake waited, in words.
    """

    def __init__(
        self, said: str, place: str = "", *, clash: bool = False, lost_at: str | None = None, advice: str = ""
    ) -> None:
        super().__init__(said)
        self.said, self.place, self.clash, self.lost_at, self.advice = said, place, clash, lost_at, advice
        self.waited = ""

    def __str__(self) -> str:
        waited = f" (waited {self.waited})" if self.waited else ""
        return (
            f"{self.place or 'the sink'} is unavailable{waited}: {self.said}. "
            "Nothing is lost or repeated; start again when it is available"
        )


class DeliveryError(OncelakeError):
    """Raised when a message of an alert could not be delivered; it is kept and sent again.

    Attributes:
        refused: True if the receiver refused this message; others may still be delivered.
    """

    def __init__(self, said: str, *, refused: bool = False) -> None:
        super().__init__(said)
        self.refused = refused


class OvertakenError(TargetError):
    """Raised by a sink whose stored batch is not the one before the batch to write: another process has written."""


class GateError(OncelakeError):
    """Raised when a batch exceeds a limit; nothing of the batch is written."""


class StageError(OncelakeError):
    """Raised when a stage's query failed; the message names the stage, the batch, the cause and what to do.

    Attributes:
        told: details for programs: stage, query, batch_id and position, as far as they are known.
    """

    def __init__(self, message: str, told: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.told = told or {}


class StoppedError(OncelakeError):
    """Raised when a signal stopped a command between two batches, before its end; a later command goes on from there.

    The command line exits as a shell reports the signal: 130 after Ctrl-C, 143 after SIGTERM.
    """

    exit_code = 130


def reason(error: BaseException) -> str:
    """Return the first line of a library's error message, without a final period."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "it is refused").rstrip(".")


class StopRequested(Exception):  # noqa: N818 - not an error: it ends a query between two batches
    """Raised inside a batch callback to end the query before the batch does any work."""
