"""The section `silver` of the configuration: accepted times, the user's own code, and how repeats are recognized."""

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from oncelake.common.models import Duration, Strict, as_tuple, later
from oncelake.silver.parsing.format import COLUMN_NAME
from oncelake.silver.transform import TimeLimits
from oncelake.silver.user_code import checked_name

# Parts of a key that are no column of silver.
HEADER, RECORD = "header:", "hash:record"
# The value of `silver.deduplicate` that turns it off, for flags.
OFF = "none"


class Deduplicate(Strict):
    """How silver recognizes a repeat: a line with the key of an earlier one, at most `within` before or after it."""

    key: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = Field(
        min_length=1,
        description="to drop repeats: what identifies a line's event, a list of columns of silver, `header:<name>` for "
        "a Kafka header, or `hash:record` for the line's bytes; a line that lacks a part is not compared",
    )
    within: Duration = Field(
        gt=timedelta(0),
        le=timedelta(days=366),
        description="to drop repeats: how far apart the times of a line and its repeat can be, at most 366 days; each "
        "batch reads this much of silver",
    )

    @field_validator("key")
    @classmethod
    def _has_parts(cls, key: tuple[str, ...]) -> tuple[str, ...]:
        for part in key:
            is_header = part.startswith(HEADER) and part != HEADER
            if not (is_header or part == RECORD or COLUMN_NAME.fullmatch(part)):
                raise ValueError(
                    f"a part must be a column of silver, {HEADER}<name> for a Kafka header, or {RECORD}, not {part!r}"
                )
        if len({*key}) < len(key):
            raise ValueError("names a part twice; name each part once")
        return key

    @property
    def window(self) -> int:
        """The window in microseconds."""
        return self.within // timedelta(microseconds=1)


class SilverSettings(TimeLimits):
    """How silver's rows are made, besides the log format."""

    transform: Annotated[str, AfterValidator(checked_name)] | None = later(
        None, description="`package.module:function` of your own code that adds columns to silver"
    )
    deduplicate: Annotated[Deduplicate | None, BeforeValidator(lambda value: None if value == OFF else value)] = later(
        None, description="drop repeats of a line; `none`: keep them, as two lines"
    )

    @property
    def limits(self) -> TimeLimits:
        """The accepted range of times."""
        return TimeLimits(earliest=self.earliest, ahead=self.ahead)
