"""No file is read by two sources, whatever links and patterns lead to it."""

import os
from pathlib import Path

import pytest

from oncelake.common.errors import SourceError
from oncelake.sources.directory.overlap import Claims


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for name in ("web/a.log", "app/b.log", "app/deep/c.log"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
    return tmp_path


def overlap(**paths: Path) -> str | None:
    return Claims({name: str(path) for name, path in paths.items()}).overlap()


def test_sources_with_nothing_in_common_do_not_overlap(logs: Path) -> None:
    assert overlap(a=logs / "web", b=logs / "app") is None
    assert overlap(a=logs / "*/a.log", b=logs / "*/b.log") is None
    assert overlap(a=logs / "web", b=logs / "gone") is None


@pytest.mark.parametrize("other", ["link", "w*", "[w]eb", "web/../web", "link/*"])
def test_a_directory_under_another_spelling_is_the_same(logs: Path, other: str) -> None:
    (logs / "link").symlink_to("web")
    said = overlap(a=logs / "web", b=logs / other)
    assert said is not None
    assert said.startswith("a and b both read the ")
    assert "web" in said


def test_a_link_within_a_source_leads_into_the_other(logs: Path) -> None:
    (logs / "web" / "more").symlink_to(logs / "app" / "deep")
    assert "both read the directory" in (overlap(a=logs / "web", b=logs / "app") or "")
    (logs / "web" / "more").unlink()
    (logs / "web" / "one.log").symlink_to(logs / "app" / "b.log")
    assert "both read the file" in (overlap(a=logs / "web", b=logs / "app") or "")


def test_an_empty_directory_that_both_read_is_refused(logs: Path) -> None:
    (logs / "empty").mkdir()
    for source in ("web", "app"):
        (logs / source / "more").symlink_to(logs / "empty")
    assert "both read the directory" in (overlap(a=logs / "web", b=logs / "app") or "")


def test_a_hidden_directory_or_file_is_read_by_nobody(logs: Path) -> None:
    (logs / "web" / ".more").symlink_to(logs / "app")
    (logs / "web" / "_one.log").symlink_to(logs / "app" / "b.log")
    assert overlap(a=logs / "web", b=logs / "app") is None


def test_a_hard_link_in_another_source_is_the_same_file(logs: Path) -> None:
    os.link(logs / "web" / "a.log", logs / "app" / "a.log")
    said = overlap(a=logs / "web", b=logs / "app") or ""
    assert f"{logs / 'web' / 'a.log'} and {logs / 'app' / 'a.log'}, which are the same" in said


def test_a_link_that_is_made_later_is_refused_when_its_first_file_is_read(logs: Path) -> None:
    claims = Claims({"a": str(logs / "web"), "b": str(logs / "app")})
    claims.begin()
    (logs / "app" / "more").symlink_to(logs / "web")
    with pytest.raises(SourceError, match=r"a and b both read the file .*web/a\.log and .*app/more/a\.log"):
        claims.claim("b", str(logs / "app" / "more" / "a.log"))
    (logs / "third").mkdir()
    (logs / "third" / "z.log").write_text("z\n")
    claims.claim("a", str(logs / "third" / "z.log"))
    with pytest.raises(SourceError, match="both read"):
        claims.claim("b", str(logs / "third" / "z.log"))


def test_a_file_that_was_moved_to_another_source_is_read_there(logs: Path) -> None:
    claims = Claims({"a": str(logs / "web"), "b": str(logs / "app")})
    claims.begin()
    moved = (logs / "web" / "a.log").rename(logs / "app" / "a.log")
    claims.claim("b", str(moved))
    claims.claim("b", str(moved))
    claims.claim("b", str(logs / "gone.log"))


def test_a_run_does_not_begin_with_sources_that_overlap(logs: Path) -> None:
    (logs / "app" / "more").symlink_to(logs / "web")
    claims = Claims({"a": str(logs / "web"), "b": str(logs / "app")})
    with pytest.raises(SourceError, match="Remove the link or one of the sources"):
        claims.begin()


def test_one_source_may_have_a_file_under_two_names(logs: Path) -> None:
    claims = Claims({"a": str(logs)})
    os.link(logs / "web" / "a.log", logs / "web" / "b.log")
    claims.begin()
    for name in ("a.log", "b.log"):
        claims.claim("a", str(logs / "web" / name))
