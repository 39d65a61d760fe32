"""A lake that is served from a real MariaDB."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from oncelake.lab.demo.made_log import lines_of, write_late_and_broken
from oncelake.serving.database import Database, parse_url
from oncelake.serving.settings import Mode
from tests.support.house import House
from tests.support.mariadb import MariaDB
from tests.support.serving import make_tables

STAGE = "serving.error_log"


@dataclass
class ServingHouse:
    """A lake, and the database that its error_log is served from by a user who may only write rows."""

    house: House
    server: MariaDB
    name: str
    mode: Mode

    def __post_init__(self) -> None:
        self.url = self.server.make_database(self.name)
        make_tables(self.server.owner_url(self.name))
        self.house.sets += [f"serving.url={self.url}", f"serving.mode={self.mode}"]

    def errors(self) -> Counter[datetime]:
        """Return the served counts per minute."""
        rows = self.server.sql("SELECT log_time, log_count FROM error_log", self.name)
        return Counter({at.replace(tzinfo=UTC): count for at, count in rows})

    def position(self) -> tuple[object, ...]:
        """Return the recorded batch and the end of its range."""
        rows = self.server.sql("SELECT batch_id, to_position FROM oncelake_position", self.name)
        return rows[0] if rows else ()

    def must_be(self, lines: list[bytes]) -> None:
        """Compare every table of the lake with the lines, and the served one with gold."""
        self.house.must_be(lines)
        assert self.errors() == self.house.errors()

    def may(self, *, write: bool = True, delete: bool = False) -> None:
        """Change the user's privileges; an open connection keeps its old ones."""
        given, taken = ("GRANT {} ON {}.* TO", "REVOKE {} ON {}.* FROM")
        for right, change in (("INSERT", given if write else taken), ("DELETE", given if delete else None)):
            if change:
                self.server.sql(f"{change.format(right, self.name)} '{self.name}'@'%'")
        Database(parse_url(self.url)).engine.dispose()

    def backup(self) -> None:
        """Copy the served tables."""
        for table in ("error_log", "oncelake_position"):
            self.server.sql(f"CREATE TABLE backup_{table} AS SELECT * FROM {table}", self.name)

    def restore(self) -> None:
        """Restore the copies."""
        for table in ("error_log", "oncelake_position"):
            self.server.sql(f"DELETE FROM {table}", self.name)
            self.server.sql(f"INSERT INTO {table} SELECT * FROM backup_{table}", self.name)


def modes(now: Mode, later: Mode) -> pytest.MarkDecorator:
    """Run a test in one mode in `make test`, and in the other in `make test-long`."""
    return pytest.mark.parametrize("place", [now, pytest.param(later, marks=pytest.mark.long)], indirect=True)


def more(house: House, number: int) -> None:
    """Write more lines: late and broken ones, and errors in new windows and in an existing one."""
    write_late_and_broken(house.logs / f"more-{number}", late=30, broken=6, seed=number)
    minutes = [b"2017-07-30 14:09", *(f"2018-01-0{1 + number % 9} 10:0{minute}".encode() for minute in range(5))]
    house.write(f"more-{number}/errors.log", *(minute + b":08 ERROR more" for minute in minutes))


def lines(house: House) -> list[bytes]:
    """Return all lines that were written."""
    return [line for directory in (house.logs, *house.logs.glob("more-*")) for line in lines_of(directory)]
