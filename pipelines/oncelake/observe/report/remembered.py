"""Answers about a table's data files, kept from one look at a lake to the next: no data file ever changes."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass
class Remembered:
    """Answers that are known of sets of data files. A page that follows a lake reads only the files that are new."""

    _known: dict[str, dict[frozenset[str], Any]] = field(default_factory=dict, repr=False)

    def of(
        self, question: str, files: Collection[str], read: Callable[[frozenset[str]], T | None]
    ) -> dict[frozenset[str], T] | None:
        """Return the answers that cover some data files, each file once, by the files that an answer is about.

        Args:
            question: the name of the question.
            files: the names of the files.
            read: answers the question for files about which nothing is known; None if it cannot.

        Returns:
            The answers; None if one is missing.
        """
        live = frozenset(files)
        # guard: remembered-files-there
        known = {block: answer for block, answer in self._known.get(question, {}).items() if block <= live}
        new = live.difference(*known)
        if new:
            answer = read(new)
            if answer is None:
                return None
            known[new] = answer
        self._known[question] = known
        return known
