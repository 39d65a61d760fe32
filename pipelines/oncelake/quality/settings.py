"""The settings of quality: where the suites are, and the limits on a batch."""

from datetime import timedelta

from pydantic import Field

from oncelake.common.models import Duration, Strict


class ShareLimits(Strict):
    """The largest share of a batch's lines, from 0 to 1."""

    warn: float | None = Field(None, ge=0, le=1, description="a larger share of a batch that is refused is warned of")
    fail: float | None = Field(None, ge=0, le=1, description="a larger share stops silver before it writes the batch")


class AgeLimits(Strict):
    """The largest age of a batch's newest line, when the batch is planned."""

    warn: Duration | None = Field(
        None, ge=timedelta(0), description="a batch whose newest line is older when it is planned is warned of"
    )
    fail: Duration | None = Field(
        None, ge=timedelta(0), description="a batch whose newest line is older stops silver before it writes"
    )


class GateSettings(Strict):
    """The limits on a batch of silver that no expectation says."""

    quarantined: ShareLimits = Field(ShareLimits(), description="the share of lines that go to quarantine")
    age: AgeLimits = Field(AgeLimits(), description="how old the newest line may be")


class QualitySettings(Strict):
    """What is expected of the tables' rows, and of a batch as a whole."""

    expectations: str | None = Field(
        None,
        description="a directory of suites, or `none`; unset: `expectations` beside the configuration, if it is there",
    )
    gate: GateSettings = GateSettings()
