"""Checkpoints and logs read the same through Hadoop and from the disk."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.exactly_once.files import Files, HadoopFiles, LocalFiles

pytestmark = pytest.mark.spark


@pytest.fixture(params=["disk", "hadoop"])
def files(request: pytest.FixtureRequest, spark: SparkSession) -> Files:
    return LocalFiles() if request.param == "disk" else HadoopFiles(spark)


def test_texts_and_names_are_read_and_a_missing_file_is_none(files: Files, tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1\n{}\nä\n")
    (tmp_path / "offsets" / "1").touch()
    assert files.read(f"{tmp_path}/offsets/0") == "v1\n{}\nä\n"
    assert files.read(f"{tmp_path}/offsets/1") == ""
    assert files.read(f"{tmp_path}/offsets/2") is None
    assert sorted(files.names(f"{tmp_path}/offsets")) == ["0", "1"]
    assert files.names(f"{tmp_path}/commits") == []
