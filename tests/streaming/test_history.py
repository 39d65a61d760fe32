"""The history of a lake says which rules made which rows."""

import json
from datetime import datetime

import pytest
import yaml
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError
from tests.support.house import House
from tests.support.lakes import BATCHES

pytestmark = pytest.mark.spark


def test_a_changed_rule_begins_a_new_span(house: House, spark: SparkSession) -> None:
    house.write("0.log", *BATCHES[0])
    house.run(spark)
    house.write("1.log", *BATCHES[1])
    house.run(spark)
    house.sets = ["silver.ahead=2 days"]
    house.write("2.log", *BATCHES[2])
    house.run(spark)
    new, old = house.lakehouse(spark).history("silver.access_log")
    assert (old.batches, old.versions, old.rows) == ((0, 1), (1, 2), 6)
    assert (new.batches, new.versions, new.rows) == ((2, 2), (3, 3), 2)
    assert new.fingerprint != old.fingerprint
    assert new.rules is not None
    assert {"ahead": "P2D"} in new.rules
    assert old.rules is not None
    assert old.rules[0]["pattern"] == new.rules[0]["pattern"]
    assert not any("ahead" in rule for rule in old.rules)


def test_the_command_shows_spans_and_rules(house: House, spark: SparkSession) -> None:
    house.write("0.log", *BATCHES[0])
    house.run(spark)
    (span,) = house.lakehouse(spark).history("gold.error_log")
    lines = house.tell(spark, "history", "gold.error_log", "--rules").splitlines()
    assert lines[0] == "gold.error_log"
    assert f"  {span.fingerprint}  versions 1  batches 0  " in lines[1]
    assert yaml.safe_load("\n".join(lines[2:])) == house.lakehouse(spark).settings.gold["error_log"].model_dump(
        exclude_defaults=True, mode="json"
    )
    told = json.loads(house.tell(spark, "history", "--json"))
    assert [entry["table"] for entry in told["spans"]] == [
        "bronze.access_log",
        "silver.access_log",
        "silver.quarantine",
        "gold.error_log",
    ]
    begun = datetime.fromisoformat(told["spans"][0]["begun_at"])
    assert round(begun.timestamp() * 1000) == told["spans"][0]["begun"]
    for path in (house.lake / "_rules").iterdir():
        path.write_text("{")
    assert "not known: no run has written these rules down" in house.tell(spark, "history", "--rules")
    with pytest.raises(ConfigError, match=r"there is no table 'gold\.x'; the tables are bronze\.access_log, silver"):
        house.lakehouse(spark).history("gold.x")


def test_rules_are_known_before_a_batch_that_they_make(house: House, spark: SparkSession) -> None:
    assert house.lakehouse(spark).history() == []
    house.write("0.log", *BATCHES[0])
    house.run(spark)
    spans = house.lakehouse(spark).history()
    assert {path.stem for path in (house.lake / "_rules").glob("*.json")} == {
        span.fingerprint for span in spans if span.fingerprint
    }
