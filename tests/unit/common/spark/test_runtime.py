"""A Databricks runtime whose Spark the tests do not run on is warned of by its name."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from oncelake.common.spark.runtime import DATABRICKS, untested_runtime
from oncelake.engine import open_lake
from tests.support.house import House


@pytest.mark.parametrize("version", ["17.3", "17.3.12", "18", "18.2", "19", None, "16.4", "client.4.2"])
def test_a_tested_runtime_and_one_that_is_refused_are_not_warned_of(
    version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(DATABRICKS, raising=False)
    if version is not None:
        monkeypatch.setenv(DATABRICKS, version)
    assert untested_runtime() == []


@pytest.mark.parametrize("version", ["17.4", "20", "180"])
def test_another_runtime_is_warned_of_by_its_name(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATABRICKS, version)
    monkeypatch.setattr(open_lake, "spark_session", lambda *_, **__: nullcontext())
    house = House(tmp_path)
    _ = house.lakehouse().spark
    assert house.said == [
        f"this is Databricks runtime {version}; the tests run on the Spark of these only: 17.3 LTS, 18 LTS, 19"
    ]
