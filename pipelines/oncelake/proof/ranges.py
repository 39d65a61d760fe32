"""This is where two positions of a source are compared, and what lies between them is put into words."""

from collections.abc import Iterator

from oncelake.exactly_once.positions import KafkaPosition, SourcePosition, same_position
from oncelake.proof.link import first_to_last


def is_offsets(at: str | None) -> bool:
    """Tell whether a position is one of Kafka, which alone has one before the first batch."""
    return KafkaPosition.parse(at) is not None


def steps(start: str | None, to: str | None, source: str) -> Iterator[tuple[str, int]]:
    """Give what lies between two positions: each part in words, and its size, negative where it goes back.

    Args:
        start: a position; None is before all that there is.
        to: another one.
        source: the name of the table that is read, for positions in one.
    """
    one, other = _numbers(start), _numbers(to)
    for key in sorted(one.keys() | other.keys()):
        begin, end = one.get(key, 0), other.get(key, 0)
        if begin != end:
            yield _words(key, min(begin, end), max(begin, end) - 1, source), end - begin
    if one == other and not same_position(start, to):
        yield f"a part of a version of {source}", 1


def between(start: str | None, to: str | None, source: str) -> str:
    """Say what a position leaves out, or reads again, when it follows another one."""
    said = [f"{'skips' if size > 0 else 'reads again'} {words}" for words, size in steps(start, to, source)]
    return " and ".join(said) or "starts elsewhere"


def goes_back(start: str | None, to: str | None, source: str) -> bool:
    """Tell whether a range ends before it begins."""
    return any(size < 0 for _, size in steps(start, to, source))


def _numbers(at: str | None) -> dict[str, int]:
    """Give a position as the next number to read, per partition; a Delta table and a directory have one."""
    found = SourcePosition.parse(at)
    return found.numbers() if found else {}


def _words(key: str, first: int, last: int, source: str) -> str:
    numbers = first_to_last(first, last)
    if key == "version":
        return f"version{'' if first == last else 's'} {numbers} of {source}"
    if key == "list":
        return f"file list{'' if first == last else 's'} {numbers}"
    return f"{key}/{numbers}"
