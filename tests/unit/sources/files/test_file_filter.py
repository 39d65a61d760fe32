"""Spark's listing leaves out what holds no text, and fails at a file of another source."""

import gzip
from pathlib import Path

from oncelake.common.errors import REFUSED, SourceError
from oncelake.sources.directory.content import content_of
from oncelake.sources.files.source import FAILED, FileFilter


def accepted(path: str) -> None:
    del path


def refused(path: str) -> None:
    raise SourceError(f"{path} is of another source")


def test_a_file_that_holds_no_text_is_left_out_of_the_listing(tmp_path: Path) -> None:
    path = tmp_path / "a b%.log"
    filtered = FileFilter(content_of, accepted)
    path.write_bytes(gzip.compress(b"x\n"))
    assert filtered.apply(f"file:{path}") == ""
    path.write_bytes(b"x\n")
    assert filtered.apply(f"file:{path}") == "1"
    assert filtered.apply(f"file:{tmp_path}/gone.log") == "1"


def test_a_file_of_another_source_fails_the_listing(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x\n")
    assert FileFilter(content_of, refused).apply(f"file:{path}") == f"{FAILED}{REFUSED}{path} is of another source"
    path.write_bytes(gzip.compress(b"x\n"))
    assert FileFilter(content_of, refused).apply(f"file:{path}") == "", "what is set aside is read by nobody"


def test_a_file_behind_a_link_to_a_directory_above_it_fails_the_listing(tmp_path: Path) -> None:
    link = tmp_path / "logs" / "sub" / "up"
    link.parent.mkdir(parents=True)
    link.symlink_to("..")
    (tmp_path / "logs" / "a.log").write_bytes(b"x\n")
    (tmp_path / "logs" / "logs").mkdir()
    (tmp_path / "logs" / "logs" / "a.log").write_bytes(b"x\n")
    filtered = FileFilter(content_of, accepted)
    answer = filtered.apply(f"file:{link}/sub/up/sub/up/a.log")
    assert answer == (
        f"{FAILED}{REFUSED}{link}: it is a link to a directory above it, so Spark would read the files there again "
        f"and again; remove the link, or run: oncelake census exclude {link}"
    )
    assert filtered.apply(f"file:{tmp_path}/logs/logs/a.log") == "1", "a name may stand twice in a path"
    assert filtered.apply(f"file:{tmp_path}/gone/gone/a.log") == "1"


def test_a_link_above_the_source_or_a_name_that_stands_twice_is_no_loop(tmp_path: Path) -> None:
    directory = tmp_path / "app" / "logs" / "11" / "11"
    directory.mkdir(parents=True)
    (directory / "a.log").write_bytes(b"x\n")
    (tmp_path / "app" / "app").symlink_to(".")
    root = tmp_path / "app" / "app" / "logs"
    assert FileFilter(content_of, accepted, str(root)).apply(f"file:{root}/11/11/a.log") == "1"
    assert FileFilter(content_of, accepted).apply(f"/{directory}/a.log") == "1", "two slashes end the search as well"


def test_an_error_is_told_to_java_in_words() -> None:
    def broken(path: str) -> None:
        raise ValueError(f"no {path}")

    assert FileFilter(broken, accepted).apply("s3a://logs/a.log") == f"{FAILED}ValueError: no s3a://logs/a.log"
