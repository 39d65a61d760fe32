"""The interface of a sink: a place outside the lake that gold tables are served into, such as a database.

A sink stores the rows of a table and, with them, the last batch that wrote the table. It decides nothing: oncelake
reads the last batch, sees whether a batch is a replay, the next one or neither, and calls `write` only for the next
one. The sink makes sure of one thing: a batch is written only if the stored batch is still the one before it.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from oncelake.common.errors import OvertakenError

if TYPE_CHECKING:
    from oncelake.serving.values import ValueLimits

# The key of a table without keys: the start of its window. The key of a table with keys is a hash of both.
LOG_TIME = "log_time"
KEY = "_key"
# The longest text that is kept of a value or of the keys of a refused row.
LONGEST = 1000

Row = tuple[Any, ...]
Merge = Literal["count", "sum", "least", "greatest"]
Kind = Literal["integer", "decimal", "float", "boolean", "text", "binary", "date", "time"]


class Safety(StrEnum):
    """How a sink keeps a batch that is written again, or only in part, from doing harm.

    Attributes:
        BY_KEY: a row is replaced by its key, and only by a row of the same or a later batch. Rows of an unfinished
            batch may be visible; the batch is stored after all of its rows.
        ONE_TRANSACTION: the rows and the batch become visible at the same moment, or neither does.
    """

    BY_KEY = "idempotent by key"
    ONE_TRANSACTION = "position and rows in one transaction"


@dataclass(frozen=True)
class SinkColumn:
    """A column of a served table.

    Attributes:
        name: the column's name.
        kind: the Python type of its values: `integer` int, `decimal` Decimal, `float` float (never NaN or infinite),
            `boolean` bool, `text` str, `binary` bytes, `date` date, `time` datetime, without a zone and in UTC, to the
            microsecond. A value may be None, unless the column is the key or never null.
        bits: of an integer: 8, 16, 32 or 64; it is signed.
        precision: of a decimal: the number of digits.
        scale: of a decimal: the digits after the point.
        never_null: True for a count.
        merge: how the values of two batches become one, for a sink that adds; None for a key, and for an estimate.
    """

    name: str
    kind: Kind
    bits: int = 64
    precision: int = 0
    scale: int = 0
    never_null: bool = False
    merge: Merge | None = None


@dataclass(frozen=True)
class SinkTable:
    """A served table: its columns in the order of a row's values.

    Attributes:
        name: the gold table's name.
        key: the column that identifies a row: `log_time`, or for a table with keys `_key`, the hexadecimal SHA-256 of
            window and keys.
        columns: the columns; the key is the first.
    """

    name: str
    key: str
    columns: tuple[SinkColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True)
class SinkBatch:
    """A batch of a served table. A sink stores the last one with the rows, all of it: `to_json` returns it as text.

    Attributes:
        stage: the stage, such as `serving.error_log`.
        version: one more than the version of the batch before it, and 1 for the first. It also grows over a rebuild, so
            a row of a higher version is always newer.
        query_id: the ID of the streaming query: the application ID of its batches.
        batch_id: the number of the batch in its query; None in the mark that a rebuild leaves in an empty table.
        before: the position in the followed table before the batch; None before the first.
        after: the position after the batch, where the next one begins.
        rows: the source rows of the batch.
        total_rows: the source rows of all batches up to this one.
        source: the table that is followed and its ID, as `gold.error_log@<id>`.
        offset_log: what Spark wrote into its checkpoint for the batch; `oncelake recover` writes it again.
        rules: a short hash of the declaration that made the rows.
        run: the ID of the start of oncelake that wrote the batch.
        committed_ms: when it was written, by that process's clock, in milliseconds since 1970.
    """

    stage: str
    version: int
    query_id: str = ""
    batch_id: int | None = None
    before: str | None = None
    after: str = ""
    rows: int = 0
    total_rows: int = 0
    source: str = ""
    offset_log: str = ""
    rules: str = ""
    run: str = ""
    committed_ms: int = 0

    def to_json(self) -> str:
        """Return the batch as text of one line, about 1 kB of ASCII."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the batch that a text holds; fields of a later version of oncelake are left out.

        Raises:
            ValueError: the text is not a batch.
        """
        value = json.loads(text)
        if not isinstance(value, dict) or not {"stage", "version"} <= value.keys():
            raise ValueError("the text is not a batch of oncelake")
        known = {attribute.name for attribute in fields(cls)}
        return cls(**{name: entry for name, entry in value.items() if name in known})

    def is_same(self, other: "SinkBatch") -> bool:
        """Return True if both are the same batch over the same range, whichever process wrote it."""
        return self._identity == other._identity

    @property
    def _identity(self) -> tuple[object, ...]:
        return self.version, self.query_id, self.batch_id, self.before, self.after


@dataclass(frozen=True)
class RefusedRow:
    """A row that a database cannot hold, because of one of its values.

    Attributes:
        key: the value of the table's key; None if it is the value that cannot be held.
        key_text: the key as text.
        row: the window's start and the keys, as JSON.
        column: the column of the value.
        value: the value as text.
        reason: why it cannot be held.
    """

    key: Any
    key_text: str
    row: str
    column: str
    value: str
    reason: str

    def __str__(self) -> str:
        return f"the row {self.row} has {self.column} = {self.value}, which cannot be served: {self.reason}"


@dataclass(frozen=True)
class RefusedRows:
    """The rows of a batch that the sink cannot hold.

    Attributes:
        count: how many they are.
        read: returns an iterator over them, from the first one.
    """

    count: int = 0
    read: Callable[[], Iterator[RefusedRow]] = lambda: iter(())


NONE_REFUSED = RefusedRows()


@dataclass
class SinkRows:
    """The rows of a batch, in the order of their key, to be taken to their end. They can be taken more than once.

    Before each part, and after the last one, oncelake checks that this process may still write the lake. So take all
    rows before you commit, and let the errors pass that the rows raise.

    Attributes:
        count: the number of rows.
        refused: further rows, which a database cannot hold; a sink of your own has none.
        refuse: called with each row that a database finds that it cannot hold; raises an error if the run is to stop.
        taken: True after the last row was taken.
        failure: the error that ended the rows early.
    """

    count: int
    source: Callable[[Callable[[], object]], Iterator[list[Row]]]
    fence: Callable[[], None] = lambda: None
    refused: RefusedRows = NONE_REFUSED
    refuse: Callable[[RefusedRow], None] = lambda _: None
    taken: bool = field(default=False, init=False)
    failure: BaseException | None = field(default=None, init=False)

    def __iter__(self) -> Iterator[list[Row]]:
        return self.chunks()

    def chunks(self, idle: Callable[[], object] = lambda: None) -> Iterator[list[Row]]:
        """Yield the rows in lists of up to 10,000.

        Args:
            idle: called every ten seconds while rows are not ready, so that a connection can be kept alive.
        """
        self.taken, self.failure = False, None
        try:
            self.fence()
            for chunk in self.source(idle):
                yield self._part(chunk)
            self._end()
        except Exception as error:
            self.failure = error
            raise

    def _part(self, chunk: list[Row]) -> list[Row]:
        """Return a part of the rows, if this process may still write."""
        self.fence()  # guard: lock-check-before-part
        return chunk

    def _end(self) -> None:
        """Let the sink store the batch, if this process may still write."""
        self.fence()  # guard: lock-check-before-commit
        self.taken = True


@dataclass(frozen=True)
class SinkContent:
    """What a sink holds at one moment.

    Attributes:
        last: its last batch.
        rows: its rows, in the order of their key.
        idle: to be called now and then while the rows are not read.
        refused: the keys, as text, of rows that it cannot hold.
    """

    last: SinkBatch | None
    rows: Iterator[Row]
    idle: Callable[[], object] = lambda: None
    refused: frozenset[str] = frozenset()


class Sink(ABC):
    """The base class of all sinks. oncelake makes one object for each served table, and calls it from one thread.

    A method raises:
        TargetAwayError: the place is unavailable at the moment; oncelake waits and calls again.
        OvertakenError: in `write` and `empty`, the stored batch is not the one before the given one.
        ConfigError: in `make` and `check`, something is missing or not as it must be.

    Any other error ends the run in one line. Values of options that are not `public` are replaced by their names.

    Attributes:
        safety: how the sink is made safe; each class sets it.
        adds: True if `write` can add the values of a batch to the stored ones (`serving.mode: transactional`).
        public: the names of options whose values may be in messages; all others are taken for secrets.
        keeps_nul: True if it can store the character U+0000 in text; if not, it gets U+FFFD.
        limits: the values that a database can hold; other rows are refused. None for a sink of your own.
    """

    safety: ClassVar[Safety]
    adds: ClassVar[bool] = False
    public: Collection[str] = frozenset()
    keeps_nul: bool = True
    limits: "ValueLimits | None" = None

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        """Keep the options; connect later, in the first method that needs it.

        Args:
            name: the gold table's name.
            options: the values of `serving.options`, all of them text.
        """
        self.name = name
        self.options = options

    def __str__(self) -> str:
        """Return the place for messages, without passwords."""
        return f"{type(self).__module__}:{type(self).__qualname__}"

    @abstractmethod
    def last(self) -> SinkBatch | None:
        """Return the last batch that `write` or `empty` stored, as it was given; None before the first."""

    @abstractmethod
    def write(self, table: SinkTable, batch: SinkBatch, rows: SinkRows) -> None:
        """Write the rows of a batch, replacing rows of the same key, and store the batch as the last one.

        Write only if the stored version is `batch.version - 1` (0 if nothing is stored), and make sure that it still is
        when the batch is stored: by a lock, a condition of the update, or a name that only one process can create.

        Args:
            table: the table with its columns.
            batch: the batch to store.
            rows: its rows; a batch may have none, and is stored all the same.
        """

    @abstractmethod
    def empty(self, mark: SinkBatch) -> None:
        """Remove all rows of the table and store a mark as the last batch, for a rebuild; it may be called again."""

    def remove(self, table: SinkTable, batch: SinkBatch, keys: SinkRows) -> None:
        """Remove the rows of some keys, and store the batch as the last one; a class may leave it out.

        The batch is stored as by `write`, and refused as by `write`. A key without a row is passed over. A writer of an
        earlier batch that comes late must not bring a removed row back.

        Args:
            table: the table with its columns.
            batch: the batch to store.
            keys: the keys, as rows of one value; there may be none.
        """
        raise NotImplementedError

    def read(self, table: SinkTable) -> Iterator[Row]:
        """Yield all rows in the order of their key, for `oncelake prove`; without it, rows are not compared."""
        raise NotImplementedError

    def make(self, table: SinkTable) -> None:  # noqa: B027 - not every sink needs it
        """Create what the table needs, unless it exists; called by `oncelake serving init`."""

    def check(self, table: SinkTable) -> None:  # noqa: B027
        """Check before a run that the table can be written."""

    @property
    def removes(self) -> bool:
        """True if the class can remove rows by key."""
        return type(self).remove is not Sink.remove

    @property
    def reads_back(self) -> bool:
        """True if the class can read its rows."""
        return type(self).read is not Sink.read

    @contextmanager
    def snapshot(self, table: SinkTable) -> Iterator[SinkContent]:
        """Yield the last batch and the rows of one moment; override it if reading takes long and the place can do that.

        Raises:
            OvertakenError: at the end, if a batch was stored while the rows were read.
        """
        last = self.last()
        yield SinkContent(last, self.read(table))
        if self.last() != last:
            raise OvertakenError(f"{self} got another batch while it was read")
