"""The settings of quality: where the suites are, and the limits on a batch."""

from pydantic import Field

from oncelake.common.models import Strict
from oncelake.quality.gate import GateSettings


class QualitySettings(Strict):
    """What is expected of the tables' rows, and of a batch as a whole."""

    expectations: str | None = Field(
        None,
        description="a directory of suites, or `none`; unset: `expectations` beside the configuration, if it is there",
    )
    gate: GateSettings = GateSettings()
