"""A lake goes on past a row that its database cannot hold, and the proof says it."""

import pytest
import yaml
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError
from tests.support.house import House
from tests.support.refused_rows import FAR

pytestmark = pytest.mark.spark


def test_a_time_past_the_year_9999_stops_nothing_and_the_proof_says_it(house: House, spark: SparkSession) -> None:
    conf = yaml.safe_load(house.conf.read_text())
    last = f"max(case when message like 'far%' then {FAR} else log_time end)"
    conf["gold"]["error_log"]["measures"]["last"] = last
    house.conf = house.root / "conf.yaml"
    house.conf.write_text(yaml.safe_dump(conf))
    house.sets.append(f"serving.url=sqlite:///{house.root}/x.db")
    house.tell(spark, "serving", "init")
    house.write("0.log", b"2017-07-30 14:09:08 ERROR far away", b"2017-07-30 14:10:08 ERROR near")
    house.run(spark)
    house.rebuild(spark, "serving")
    assert house.doubts(spark) == []
    said = house.tell(spark, "prove")
    assert "1 row that the database cannot hold, in oncelake_refused" in " ".join(said.split())
    house.sets.append("serving.unheld=stop")
    with pytest.raises(StageError, match="which cannot be served"):
        house.rebuild(spark, "serving")
    assert any("has no batch of it" in doubt for doubt in house.doubts(spark))
    house.tell(spark, "prove", expect=1)
