"""The result of one step of a proof: at most a handful of cases, and the number of further ones."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice, pairwise
from typing import Any, Self

from oncelake.common.wording import HANDFUL, count_of, listed
from oncelake.exactly_once.delta_log import Commit

# Offsets or windows from a first to a last one, both included.
Range = tuple[int, int]
# The layers whose tables read silver beside each other.
_LAST_LAYERS = ("gold", "serving")


@dataclass(frozen=True)
class Uncompared:
    """Lines, files or offsets that a link did not compare.

    Attributes:
        count: how many they are.
        said: the same number in words, with the reason: `12 records that expired`.
        lines: how many lines of bronze they are; 0 for what is in no table, such as a file that waits.
        waits: True if the next run reads them.
        lasting: True if no later proof can compare them either, so that the record of the proof keeps the number.
    """

    count: int
    said: str
    lines: int = 0
    waits: bool = False
    lasting: bool = False

    @classmethod
    def of_lines(cls, count: int, why: str, *, lasting: bool = False) -> "tuple[Self, ...]":
        """Return lines of bronze that are not compared, none if there are none.

        Args:
            count: how many they are.
            why: the rest of the words, after `12 lines`.
            lasting: whether no later proof can compare them.
        """
        return (cls(count, f"{count_of(count, 'line')} {why}", count, lasting=lasting),) if count > 0 else ()

    @classmethod
    def waiting(cls, count: int, unit: str, which: str, *, lines: int = 0) -> "tuple[Self, ...]":
        """Return what waits for the next run, none if nothing does.

        Args:
            count: how many they are.
            unit: the word for one of them.
            which: the rest of the words, such as `for the next run`.
            lines: how many of them are lines of bronze.
        """
        said = f"{count_of(count, f'{unit} that waits', f'{unit}s that wait')} {which}"
        return (cls(count, said, lines, waits=True),) if count > 0 else ()


@dataclass(frozen=True)
class Link:
    """One link between a source and the last table.

    Attributes:
        name: what was checked, such as `silver.access_log → gold.error_log`.
        table: the table that the link is about.
        holds: True if no fault was found.
        said: one line: what was counted, or, if the link does not hold, the rows or ranges at fault.
        notes: facts worth knowing that are no faults.
        uncompared: what the link did not compare; the last sentence of the proof has these numbers.
    """

    name: str
    table: str
    holds: bool
    said: str
    notes: tuple[str, ...] = ()
    uncompared: tuple[Uncompared, ...] = ()

    @classmethod
    def of(cls, name: str, table: object, faults: Iterable[str], well: str, notes: Iterable[str] = ()) -> Self:
        """Return a link that holds if there is no fault.

        Args:
            name: what was checked.
            table: the table that the link is about.
            faults: the faults found; the text names a handful.
            well: what was counted; the text if there is no fault.
            notes: facts worth knowing that are no faults.
        """
        fault_list = list(faults)
        said = listed(fault_list, separator="; ") if fault_list else well
        return cls(name, str(table), not fault_list, said, tuple(notes))

    def without(self, *parts: Uncompared) -> Self:
        """Return the link with further parts that it did not compare."""
        return replace(self, uncompared=tuple(dict.fromkeys((*self.uncompared, *parts))))

    def to_dict(self) -> dict[str, Any]:
        """Return the link for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Claim:
    """What a proof whose links all hold may say of the lines in bronze.

    Attributes:
        lines: the lines in bronze, or the records of one or several lines.
        links: the links of the proof.
        in_records: the lines that the records have; None if each is one line.
    """

    lines: int
    links: Sequence[Link]
    in_records: int | None = None

    @property
    def compared(self) -> int:
        """Return how many lines every link has compared, in this proof or in an earlier one.

        What waits for a table of gold waits for its served table too, or is the end of what waits for another table of
        gold. So of these tables, the one with most lines that wait counts. Other parts may overlap, and are added up:
        the result is never too large.
        """
        waits, others = Counter[str](), 0
        for link in self.links:
            layer, _, name = link.table.partition(".")
            for part in link.uncompared:
                if part.waits and layer in _LAST_LAYERS:
                    waits[name] += part.lines  # guard: claim-without-waiting-gold
                else:
                    others += part.lines  # guard: claim-counts-compared-only
        return max(self.lines - others - max(waits.values(), default=0), 0)

    @property
    def uncompared(self) -> tuple[str, ...]:
        """Return what was not compared, in words, each with its link."""
        return tuple(f"{part.said} ({link.name})" for link in self.links for part in link.uncompared)

    @property
    def counted(self) -> str:
        """Return how many lines bronze has, or how many records of how many lines, in words."""
        if self.in_records is None:
            return count_of(self.lines, "line")
        return f"{count_of(self.lines, 'record')} of {count_of(self.in_records, 'line')}"

    def __str__(self) -> str:
        lines = self.counted
        if not self.uncompared:  # guard: claim-without-every-one
            return f"{lines}, every one exactly once"
        counted = lines if self.compared == self.lines else f"{self.compared:,} of {lines}"
        return f"{counted}, each exactly once; not compared: {', '.join(self.uncompared)}"


def named(commit: Commit) -> str:
    """Return a commit in words: its batch or operation, its version, and its time."""
    what = f"batch {commit.metadata.batch_id}" if commit.metadata else commit.operation or "a commit without a name"
    return f"{what} (version {commit.version}, {commit.at})"


def batch_words(ids: Sequence[int]) -> str:
    """Return batch IDs in words: `batch 3`, or `batches 3 to 5`."""
    return f"batch {ids[0]}" if len(ids) == 1 else f"batches {min(ids)} to {max(ids)}"


def first_to_last(first: int, last: int) -> str:
    """Return a range of numbers as `17 to 19`, or as one number."""
    return f"{first}" if first == last else f"{first} to {last}"


def offsets_listed(topic: str, sample: Iterable[tuple[int, int]], total: int) -> str:
    """Return offsets in words, as `alog/0/17 to 19`.

    Args:
        topic: the topic of the offsets.
        sample: the first offsets in order, as partition and offset.
        total: the number of all offsets.
    """
    by_partition: dict[int, list[int]] = {}
    for partition, offset in sample:
        by_partition.setdefault(partition, []).append(offset)
    shown = [(part, *range_) for part, offsets in by_partition.items() for range_ in ranges(offsets)][:HANDFUL]
    more = total - sum(last - first + 1 for _, first, last in shown)
    words = [f"{topic}/{part}/{first_to_last(first, last)}" for part, first, last in shown]
    return listed(words, len(words) + more)


def ranges(numbers: Iterable[int]) -> list[Range]:
    """Join sorted numbers into ranges of consecutive numbers."""
    return merged((number, number) for number in numbers)


def merged(spans: Iterable[Range]) -> list[Range]:
    """Join sorted ranges, none inside another one, that overlap or follow each other without a gap."""
    result: list[Range] = []
    for first, last in spans:
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], last)
        else:
            result.append((first, last))
    return result


def joined(spans: Sequence[Range], most: int) -> list[Range]:
    """Join sorted ranges over the smallest gaps between them, until at most `most` ranges are left."""
    gaps = sorted(range(1, len(spans)), key=lambda at: spans[at][0] - spans[at - 1][1], reverse=True)
    cuts = [0, *sorted(islice(gaps, most - 1)), len(spans)]
    groups = [spans[one:other] for one, other in pairwise(cuts)]
    return [(group[0][0], max(last for _, last in group)) for group in groups if group]
