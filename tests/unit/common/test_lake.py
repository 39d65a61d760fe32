"""A path is written in one way only, which is Hadoop's."""

import pytest

from oncelake.common.lake import SILVER, Beside, Lake, Table, is_local, opens_in_delta_rs, place


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("/logs/", "/logs"),
        ("/srv/work/../logs/./app", "/srv/logs/app"),
        ("../logs", "/srv/logs"),
        ("logs//app", "/srv/work/logs/app"),
        ("~/logs", "/home/somebody/logs"),
        ("file:///my%20logs/../x", "/x"),
        ("file:/logs", "/logs"),
        ("/logs/{a,b}/*.log", "/logs/{a,b}/*.log"),
        ("/logs/10:00.log", "/logs/10:00.log"),
        ("s3a://bucket/logs/", "s3a://bucket/logs"),
        ("hdfs:/logs", "hdfs:/logs"),
        ("hdfs:///logs//app", "hdfs:///logs/app"),
        ("S3://bucket//lake//x/", "s3://bucket/lake/x"),
    ],
)
def test_a_path_is_written_as_hadoop_writes_it(text: str, spelled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setattr("os.getcwd", lambda: "/srv/work")
    assert place(text) == spelled
    assert is_local(text) == spelled.startswith("/")


@pytest.mark.parametrize(
    ("path", "opens"),
    [
        ("/data/lake", True),
        ("/my data/größe 日本/a'b#c?d{e}~", True),
        ("s3://bucket/lake", True),
        ("s3://bucket/a%41", False),
        ("hdfs:///lake", False),
        *((f"/data/a{misread}b/lake", False) for misread in ("%41", "%", "\\", "[", "]", "^", "|", "\n")),
    ],
)
def test_delta_rs_gets_only_paths_that_it_does_not_misread(path: str, opens: bool) -> None:
    assert opens_in_delta_rs(path) is opens


@pytest.mark.parametrize("catalog", [None, "main"])
def test_a_table_is_beside_its_lake_and_shares_the_others(catalog: str | None) -> None:
    lake = Lake("/lake", "/lake/_checkpoints", catalog)
    beside = Beside.of(lake, Table("gold", "errors"))
    assert beside.at(Table("gold", "errors")) == "/lake/_beside/gold.errors/gold/errors"
    assert beside.at(SILVER) == lake.at(SILVER)
    assert beside.at(Table("gold", "others")) == lake.at(Table("gold", "others"))
    assert beside.checkpoint("gold.errors") == "/lake/_beside/gold.errors/_checkpoints/gold/errors"
