"""The settings of repeats are checked when they are read; without them, silver's rules have the same fingerprint."""

import pytest

from oncelake.common.errors import ConfigError
from oncelake.common.models import fingerprint
from oncelake.engine.chain import chain_of
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.configuration import configured
from oncelake.silver.settings import SilverSettings
from oncelake.silver.transform import TimeLimits

HOUR = "silver.deduplicate.within=1 hour"


def refused(*sets: str) -> str:
    with pytest.raises(ConfigError) as error:
        chain_of(*configured(shipped_conf() / "local.yaml", [*sets]))
    return str(error.value)


def test_without_repeats_the_fingerprint_is_that_of_the_time_limits() -> None:
    assert fingerprint(SilverSettings()) == fingerprint(TimeLimits())
    on = SilverSettings.model_validate({"deduplicate": {"key": ["message"], "within": "1 hour"}})
    assert fingerprint(on) != fingerprint(TimeLimits())
    assert SilverSettings.model_validate({"deduplicate": "none"}) == SilverSettings()


@pytest.mark.parametrize("part", ["header:", "hash:line", "request-id", ""])
def test_a_part_of_another_form_is_refused(part: str) -> None:
    said = refused(f"silver.deduplicate.key=['{part}']", HOUR)
    assert "a part must be a column of silver, header:<name> for a Kafka header, or hash:record" in said


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["silver.deduplicate.key=[message, message]", HOUR], "names a part twice"),
        (["silver.deduplicate.key=[message]"], "silver.deduplicate.within: is required"),
        ([HOUR], "silver.deduplicate.key: is required"),
        (["silver.deduplicate.key=[message]", "silver.deduplicate.within=0 seconds"], "greater than 0"),
        (["silver.deduplicate.key=[message]", "silver.deduplicate.within=9999 days"], "less than or equal to 366 days"),
    ],
)
def test_a_setting_that_is_missing_or_too_large_is_refused(sets: list[str], said: str) -> None:
    assert said in refused(*sets)
