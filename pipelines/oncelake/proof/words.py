"""This is where a proof's findings become words: at most a handful, and how many more there are."""

from collections.abc import Iterable, Sequence
from itertools import islice, pairwise

HANDFUL = 5

# Offsets or windows from a first one to a last one, both in it.
Range = tuple[int, int]


def listed(items: Iterable[str], total: int | None = None, separator: str = ", ") -> str:
    """List a handful of items, and say how many more there are.

    Args:
        items: the items, or the first of them.
        total: how many there are in all, when `items` are only the first.
        separator: what stands between two.
    """
    found = list(items)
    shown = found[:HANDFUL]
    more = (len(found) if total is None else total) - len(shown)
    return separator.join(shown) + (f"{separator}and {more:,} more" if more > 0 else "")


def ranges(numbers: Iterable[int]) -> list[Range]:
    """Join sorted numbers that follow one another."""
    found: list[Range] = []
    for number in numbers:
        if found and number <= found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def joined(found: Sequence[Range], most: int) -> list[Range]:
    """Join ranges, sorted, over the smallest gaps between them until there are at most so many."""
    gaps = sorted(range(1, len(found)), key=lambda at: found[at][0] - found[at - 1][1], reverse=True)
    cuts = [0, *sorted(islice(gaps, most - 1)), len(found)]
    groups = [found[one:other] for one, other in pairwise(cuts)]
    return [(group[0][0], max(last for _, last in group)) for group in groups if group]


def offsets_listed(topic: str, found: Iterable[tuple[int, int]], total: int) -> str:
    """Write offsets as `alog/0/17 to 19`.

    Args:
        topic: their topic.
        found: partition and offset, the first of them in order.
        total: how many offsets there are in all.
    """
    by_partition: dict[int, list[int]] = {}
    for partition, offset in found:
        by_partition.setdefault(partition, []).append(offset)
    spans = [(part, *each) for part, offsets in by_partition.items() for each in ranges(offsets)]
    shown = spans[:HANDFUL]
    more = total - sum(last - first + 1 for _, first, last in shown)
    words = [f"{topic}/{part}/{first}" + (f" to {last}" if last > first else "") for part, first, last in shown]
    return ", ".join(words) + (f" and {more:,} more" if more > 0 else "")
