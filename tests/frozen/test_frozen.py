"""A lake of an earlier version opens, continues and counts correctly; names that programs read are unchanged."""

import pytest
from pyspark.sql import SparkSession

from tests.frozen.golden import counted, flat, play, read, written
from tests.frozen.lakes import LAKES, FrozenLake
from tests.frozen.place import frozen

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("frozen")]


@pytest.mark.parametrize("lake", LAKES, ids=lambda lake: lake.name)
def test_a_frozen_lake_opens_and_continues(lake: FrozenLake, spark: SparkSession) -> None:
    expected = read(lake.name)
    with frozen(lake.name, spark) as house:
        for now, then in zip(play(lake, lake.of(house), spark), expected["steps"], strict=True):
            assert dict(flat(now)) == dict(flat(then))
        assert counted(house) == expected["tables"]
        assert len(counted(house)["bronze"]) == len(lake.lines)
        assert dict(flat(written(house))) == dict(flat(expected["written"]))
