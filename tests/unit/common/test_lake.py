"""A path is written in one way only, which is Hadoop's."""

import pytest

from oncelake.common.lake import is_local, place


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
    ],
)
def test_a_path_is_written_as_hadoop_writes_it(text: str, spelled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setattr("os.getcwd", lambda: "/srv/work")
    assert place(text) == spelled
    assert is_local(text) == spelled.startswith("/")
