"""The promises of every kind of source, for a directory of complete files."""

import pytest

from tests.support.house import House
from tests.support.source_suite import SourceSuite, SourceWorld

pytestmark = pytest.mark.spark


class FilesWorld(SourceWorld):
    """A directory; each piece of input is a file."""

    @property
    def settings(self) -> list[str]:
        return ["source.kind=files"]

    def add(self, *lines: bytes) -> int:
        self.house.write(f"{len(list(self.house.logs.iterdir())):03}.log", *lines)
        return 1

    def add_no_line(self) -> None:
        self.house.write("empty.log")

    def lose(self) -> None:
        (self.house.logs / "000.log").unlink()

    def another(self) -> list[str]:
        other = self.house.root / "other"
        other.mkdir()
        (other / "000.log").write_bytes(b"2017-07-30 14:09:08 ERROR another\n")
        return [*self.settings, f"source.path={other}"]


class TestFiles(SourceSuite):
    """The suite."""

    kind = "files"

    @pytest.fixture
    def world(self, house: House) -> SourceWorld:
        return FilesWorld(house)
