"""Rules that cannot work are refused with what is accepted; an old version of the rules needs its own key."""

from typing import Any, cast

import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession

from oncelake.bronze.mask import MaskSettings, check_key
from oncelake.bronze.mask_versions import MaskVersions
from oncelake.bronze.settings import SourceSettings
from oncelake.common.errors import ConfigError
from oncelake.common.models import fingerprint, one_line

EMAIL = {"find": "email", "action": "drop"}
KEY = "a key of sixteen bytes or more"


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        ({"rules": []}, "rules: Tuple should have at least 1 item"),
        ({"rules": [{"action": "drop"}]}, "rules.0: find names a pattern, pattern is one: neither is set; set one"),
        ({"rules": [{**EMAIL, "pattern": "x"}]}, "rules.0: find names a pattern, pattern is one: both are set"),
        ({"rules": [{**EMAIL, "group": 1}]}, "rules.0: group is of pattern; find has its own"),
        ({"rules": [{**EMAIL, "text": "x"}]}, "rules.0: text is required for action replace, and for no other action"),
        (
            {"rules": [{**EMAIL, "fields": ["header"]}]},
            "rules.0: fields has 'header'; accepted are value, key, headers",
        ),
        ({"rules": [EMAIL, EMAIL]}, "two mask rules have the name email; give one of them another name"),
        ({"rules": [{**EMAIL, "action": "hash"}]}, "a rule has action hash: set mask.key_variable to the name"),
        ({"rules": [EMAIL], "key_variable": "K"}, "no rule has action hash: remove mask.key_variable"),
        ({"rules": [{**EMAIL, "length": 4}]}, "rules.0.length: Input should be greater than or equal to 8"),
        ({"rules": [{**EMAIL, "find": "phone"}]}, "rules.0.find: Input should be 'all', "),
        ({"rules": [EMAIL], "keys": 1}, "keys: there is no such setting"),
    ],
)
def test_rules_that_cannot_work_are_refused(mask: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as found:
        MaskSettings.model_validate(mask)
    assert one_line(found.value).startswith(said)


@pytest.mark.parametrize(("key", "said"), [(None, "is not set"), ("", "is not set"), ("short", "has 5 bytes")])
def test_a_key_that_is_missing_or_short_is_refused(monkeypatch: pytest.MonkeyPatch, key: str | None, said: str) -> None:
    monkeypatch.delenv("MASK_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("MASK_KEY", key)
    mask = MaskSettings.model_validate({"rules": [{**EMAIL, "action": "hash"}], "key_variable": "MASK_KEY"})
    with pytest.raises(ConfigError) as found:
        check_key(mask, "sources.web")
    assert f"sources.web.mask.key_variable: the environment variable with the key {said}; it needs" in str(found.value)
    check_key(MaskSettings.model_validate({"rules": [EMAIL]}), "source")


def test_the_fingerprint_changes_with_the_key_and_shows_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = MaskSettings.model_validate({"rules": [{**EMAIL, "action": "hash"}], "key_variable": "MASK_KEY"})
    prints = set()
    for key in (KEY, KEY, f"{KEY}2"):
        monkeypatch.setenv("MASK_KEY", key)
        prints.add(fingerprint(mask.resolved()))
        assert key not in mask.resolved().model_dump_json()
    assert len(prints) == 2


def test_a_source_without_rules_has_the_text_it_always_had() -> None:
    assert "mask" not in SourceSettings(path="/logs").model_dump_json()


def test_an_old_version_needs_the_key_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASK_KEY", KEY)
    mask = MaskSettings.model_validate({"rules": [{**EMAIL, "action": "hash"}], "key_variable": "MASK_KEY"})
    kept = {"stage": "bronze", "rules": [mask.resolved().model_dump(mode="json", exclude_defaults=True)]}

    def of(known: dict[str, Any] | None) -> str:
        found = MaskVersions(lambda: cast(SparkSession, None), lambda _: known).of("f1")
        assert isinstance(found, str)
        return found

    assert of(None) == "masked with rules f1, which the lake does not know"
    assert of({"rules": [{"level": "x"}]}) == "masked with rules f1, which this version of oncelake cannot read"
    monkeypatch.setenv("MASK_KEY", f"another {KEY}")
    assert of(kept) == "masked with rules f1, and the environment variable MASK_KEY has another key now"
    monkeypatch.delenv("MASK_KEY")
    assert of(kept) == "masked with rules f1, and the environment variable MASK_KEY with the key is not set"
