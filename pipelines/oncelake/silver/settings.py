"""The section `silver` of the configuration."""

from typing import Annotated

from pydantic import AfterValidator

from oncelake.common.models import later
from oncelake.silver.transform import TimeLimits
from oncelake.silver.user_code import checked_name


class SilverSettings(TimeLimits):
    """How silver's rows are made, besides the log format."""

    transform: Annotated[str, AfterValidator(checked_name)] | None = later(
        None, description="`package.module:function` of your own code that adds columns to silver"
    )

    @property
    def limits(self) -> TimeLimits:
        """The accepted range of times."""
        return TimeLimits(earliest=self.earliest, ahead=self.ahead)
