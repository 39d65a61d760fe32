"""A log format that Java would refuse is refused before a stream starts, with the place and the reason."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError
from oncelake.silver.parsing.format import LogFormat
from oncelake.silver.parsing.parser import Parser, load_parser
from tests.support.places import FORMATS

pytestmark = pytest.mark.spark

GOOD: dict[str, Any] = {"pattern": "(?<time>a)(?<level>b)(?<message>c)", "time": "yyyy-MM-dd"}


def test_java_accepts_the_shipped_formats(spark: SparkSession) -> None:
    for path in FORMATS.glob("*.yaml"):
        load_parser(path.stem, [FORMATS]).check(spark)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pattern": GOOD["pattern"] + "x{2"}, "pattern: Unclosed counted closure near index"),
        ({"pattern": GOOD["pattern"] + "*+*"}, "pattern: Dangling meta character '*' near index"),
        ({"pattern": GOOD["pattern"] + "[z-a]"}, "pattern: Illegal character range near index"),
        ({"time": "yyyy-MM-dd SSSSSSSSSSSS"}, "time: "),
        ({"zone": "EST"}, "zone: Java does not know 'EST'"),
    ],
)
def test_a_pattern_that_java_refuses_is_a_one_line_error(
    spark: SparkSession, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Parser(LogFormat.model_validate(GOOD | changes)).check(spark)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)
    for value in changes.values():
        assert repr(value) in str(caught.value)
