"""Where the checkpoints of a lake on S3 are: on the host of a new lake, and where they are of one that has them."""

from typing import Any

import pytest

from oncelake.engine.open_lake import OpenLake
from oncelake.exactly_once.files import Files
from tests.support.memory import MemoryFiles

ROOT = "s3://bucket/lake"


def opened(monkeypatch: pytest.MonkeyPatch, on_store: Files, *, has_lease: bool = True, sets: str = "") -> OpenLake:
    """Return a lake on S3 whose Spark has started."""
    monkeypatch.setattr("oncelake.engine.open_lake.has_lease", lambda *_: has_lease)
    monkeypatch.setattr("oncelake.engine.open_lake.files_at", lambda *_: on_store)
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    spark: Any = object()
    lake = OpenLake.open(None, ["source.path=/logs", f"lake.root={ROOT}", *filter(None, [sets])], spark=spark)
    assert lake.spark is spark
    return lake


def test_a_new_lake_on_s3_has_its_checkpoints_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    places = opened(monkeypatch, MemoryFiles()).settings.places()
    assert places.per_host
    assert places.checkpoints.startswith("/state/oncelake/bucket-lake-")


def test_a_lake_that_has_its_checkpoints_on_s3_keeps_them_there(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    files.write(f"{ROOT}/_checkpoints/bronze/metadata", "{}")
    lake = opened(monkeypatch, files)
    assert (lake.settings.places().checkpoints, lake.settings.places().per_host) == (f"{ROOT}/_checkpoints", False)
    assert all(kind.lake == lake.settings.places() for kind in lake.settings.kinds().values())


def test_a_lake_without_a_lease_has_its_checkpoints_on_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = opened(monkeypatch, MemoryFiles(), has_lease=False)
    assert lake.settings.places().checkpoints == f"{ROOT}/_checkpoints"


def test_the_setting_says_where_the_checkpoints_are(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = opened(monkeypatch, MemoryFiles(), sets="checkpoints=/data/checkpoints")
    assert (lake.settings.places().checkpoints, lake.settings.places().per_host) == ("/data/checkpoints", False)
