"""The result of a proof."""

from dataclasses import dataclass
from typing import Any

from oncelake.exactly_once.link import Claim, Link


@dataclass(frozen=True)
class ProofResult:
    """The result of a proof.

    Attributes:
        links: the links that were checked, in order; only the last one can fail, because a proof stops there.
        lines: the number of lines in bronze up to the proven position, or of records of one or several lines.
        seconds: the duration of the proof.
        in_records: the lines that the records have; None if each is one line.
    """

    links: list[Link]
    lines: int
    seconds: float
    in_records: int | None = None

    @property
    def holds(self) -> bool:
        """Return True if every link holds."""
        return all(link.holds for link in self.links)

    @property
    def claim(self) -> Claim:
        """Return what the proof may say of the lines, if every link holds."""
        return Claim(self.lines, self.links, self.in_records)

    @property
    def words(self) -> str:
        """The result in one line."""
        return "the proof holds" if self.holds else f"{self.links[-1].name} does not hold: {self.links[-1].said}"

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {
            "links": [link.to_dict() for link in self.links],
            "holds": self.holds,
            "lines": self.lines,
            **({"in_records": self.in_records} if self.in_records is not None else {}),
            "compared": self.claim.compared,
            "uncompared": self.claim.uncompared,
            "seconds": round(self.seconds, 1),
        }
