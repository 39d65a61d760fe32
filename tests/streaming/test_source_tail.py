"""The promises of every kind of source, for a log that grows and is rotated in each way."""

import shutil

import pytest

from tests.support.house import House
from tests.support.source_suite import SourceSuite, SourceWorld
from tests.support.tailing import pack

pytestmark = pytest.mark.spark


class TailWorld(SourceWorld):
    """A log that is rotated before each piece of input: renamed, copied and cut, or compressed."""

    turn = -1

    @property
    def settings(self) -> list[str]:
        return ["source.kind=tail"]

    def add(self, *lines: bytes) -> int:
        self._rotate()
        text = b"".join(line + b"\n" for line in lines)
        with (self.house.logs / "app.log").open("ab") as log:
            log.write(text)
        return len(text)

    def add_no_line(self) -> None:
        (self.house.logs / "other.log").touch()

    def lose(self) -> None:
        next(self.house.logs.glob("app.log.0*")).unlink()

    def another(self) -> list[str]:
        other = self.house.root / "other"
        other.mkdir()
        (other / "app.log").write_bytes(b"2017-07-30 14:09:08 ERROR another\n")
        return [*self.settings, f"source.path={other}"]

    def _rotate(self) -> None:
        """Rename the log, compress what was renamed or copied, or copy and cut the log, each in its turn."""
        log, turn = self.house.logs / "app.log", self.turn
        self.turn += 1
        aside = log.with_name(f"app.log.{turn}")
        if turn % 3 == 1:
            for path in log.parent.glob("app.log.*"):
                if path.suffix != ".gz":
                    pack(path)
        elif turn % 3 == 0:
            log.rename(aside)
        elif log.exists():
            shutil.copyfile(log, aside)
            log.write_bytes(b"")


class TestTail(SourceSuite):
    """The suite."""

    kind = "tail"

    @pytest.fixture
    def world(self, house: House) -> SourceWorld:
        return TailWorld(house)
