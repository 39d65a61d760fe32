"""A file that is overwritten is not checked against the checksum of its old content."""

from pathlib import Path

from oncelake.exactly_once.files import LocalFiles


def test_an_overwritten_file_is_intact(tmp_path: Path) -> None:
    path, checksum = tmp_path / "0", tmp_path / ".0.crc"
    path.write_text("v1\n{}")
    checksum.write_bytes(b"crc\0, and the sums of another text")
    files = LocalFiles()
    assert not files.is_sound(str(path))
    files.write(str(path), "v1\n{}")
    assert files.is_sound(str(path))
    assert not checksum.exists()
