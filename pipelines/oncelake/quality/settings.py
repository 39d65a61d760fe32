"""The quality settings: where the suites are, and the limits on a batch."""

from datetime import timedelta

from pydantic import Field

from oncelake.common.models import Duration, Strict, later


class ShareLimits(Strict):
    """The largest allowed share of a batch's lines, from 0 to 1."""

    warn: float | None = Field(
        None, ge=0, le=1, description="a larger share of refused lines in a batch causes a warning"
    )
    fail: float | None = Field(
        None, ge=0, le=1, description="a larger share of refused lines stops silver before it writes the batch"
    )
    fail_from: int | None = later(
        None,
        gt=0,
        description="`fail` is for the first batch, and for batches of at least this many lines; unset: for all",
    )


class AgeLimits(Strict):
    """The largest allowed age of a batch's newest line when the batch is planned."""

    warn: Duration | None = Field(
        None, ge=timedelta(0), description="a newest line that is older when the batch is planned causes a warning"
    )
    fail: Duration | None = Field(
        None, ge=timedelta(0), description="a newest line that is older stops silver before it writes the batch"
    )


class GateSettings(Strict):
    """The limits on a batch of silver that no expectation can express."""

    quarantined: ShareLimits = Field(ShareLimits(), description="the share of lines that go to quarantine")
    age: AgeLimits = Field(AgeLimits(), description="how old the newest line may be")


class QualitySettings(Strict):
    """The expectations for the tables' rows, and the limits for whole batches."""

    expectations: str | None = Field(
        None,
        description="a directory of suites, or `none`; unset: `expectations` next to the configuration, if it exists",
    )
    gate: GateSettings = GateSettings()
