"""The rules under which bronze's rows were read, so that the source can be read again as it was read then."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pyspark.sql import SparkSession

from oncelake.bronze.mask import Mask, Masking
from oncelake.bronze.records import Records

# Returns what a fingerprint stands for, as `_rules/<fingerprint>.json` has it; None if the lake does not know it.
_RuleReader = Callable[[str], Mapping[str, Any] | None]


@dataclass(frozen=True)
class MaskVersion:
    """One version of the rules of a source.

    Attributes:
        records: how the log format put several lines together at that time; None if each line was a record.
        mask: the rules.
        max_line: the bytes of a line that was masked whole.
    """

    records: Records | None
    mask: Mask
    max_line: int


@dataclass
class MaskVersions:
    """The versions that a lake knows, each with the key that it was used with.

    Attributes:
        session: returns the session; called only where rules are applied.
    """

    session: Callable[[], SparkSession]
    known: _RuleReader
    _versions: dict[str, MaskVersion | str] = field(default_factory=dict)

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self.session()

    def of(self, fingerprint: str) -> MaskVersion | str:
        """Return a version of the rules; if it cannot be applied any more, why not, as text."""
        if fingerprint not in self._versions:
            self._versions[fingerprint] = self._read(fingerprint)
        return self._versions[fingerprint]

    def _read(self, fingerprint: str) -> MaskVersion | str:
        recorded = self.known(fingerprint)
        if recorded is None:
            return f"masked with rules {fingerprint}, which the lake does not know"
        try:
            # guard: cut-line-read-again-joined
            of_records = (rule for rule in recorded["rules"] if "starts" in rule or "part" in rule)
            records = next(map(Records.model_validate, of_records), None)
            masking = next(Masking.model_validate(rule) for rule in recorded["rules"] if "rules" in rule)
        except (ValidationError, StopIteration, KeyError):
            return f"masked with rules {fingerprint}, which this version of oncelake cannot read"
        problem = masking.problem()
        if problem is not None:
            return f"masked with rules {fingerprint}, and {problem}"
        return MaskVersion(records, Mask(self.spark, masking, records), masking.max_line)
