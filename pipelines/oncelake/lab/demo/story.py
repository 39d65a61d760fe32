"""The steps of the demo: run, run again, crash and replay, late and broken lines, tables, proof."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table as Grid

from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.lake import BRONZE, QUARANTINE, SILVER, Table
from oncelake.common.wording import count_of
from oncelake.exactly_once.link import Link
from oncelake.lab.demo.answer import Answer, count
from oncelake.lab.demo.made_log import lines_of, write_late_and_broken, write_log
from oncelake.lakehouse import Lakehouse
from oncelake.observe.progress import Lines
from oncelake.serving.served import Served
from oncelake.serving.sql import SqlSink

LINES, LATE, BROKEN = 20_000, 200, 60
ERRORS = Table("gold", "error_log")


def sets_below(root: Path) -> list[str]:
    """Return the settings that place the demo's log and lake below a directory."""
    own = ["source.kind=files", "source.format=default", f"source.path={root / 'logs'}", f"lake.root={root / 'lake'}"]
    return [*own, f"serving.url=sqlite:///{root / 'served.db'}", f"serving.tables=[{ERRORS.name}]"]


def tell(console: Console, lake: Lakehouse, root: Path) -> dict[str, bool]:
    """Run the demo below a directory, and return by name whether each part of the proof holds.

    Raises:
        ConfigError: the configuration does not declare the gold table error_log.
        OncelakeError: the directory is not empty.
    """
    if ERRORS.name not in lake.settings.gold:
        raise ConfigError(f"the demo needs the gold table {ERRORS.name}; declare it as in conf/local.yaml")
    if any(root.iterdir()):
        raise OncelakeError(f"--keep {root}: the directory is not empty; name a new or empty one")
    (root / "logs").mkdir()
    return Story(console, lake, root).tell()


@dataclass
class Story:
    """The demo's steps on one lake."""

    console: Console
    lake: Lakehouse
    root: Path

    def tell(self) -> dict[str, bool]:
        """Run the steps, and return the result of each check."""
        served = self.lake.make_served_tables().tables
        self._say(f"1. A log of {LINES:,} lines, out of order, in 4 files. The chain processes all of it:")
        write_log(self.root / "logs", LINES)
        self._run()
        self._say("2. The same command again. There is no new input, so no table gets a commit:")
        before = self.lake.versions()
        self._run()
        unchanged = self._compare(before)
        self._say("3. A simulated crash after gold's MERGE, before Spark recorded the batch as done. It is replayed:")
        replayed = self._replay()
        self._say(f"4. {LATE} lines that are 40 days late, and {BROKEN} broken lines:")
        write_late_and_broken(self.root / "logs", LATE, BROKEN)
        self._run()
        self._show_quarantine()
        self._say("5. The result, errors per minute (gold.error_log), latest first:")
        self._show_errors()
        self._say("6. The same table, served from a SQL database: SQLite here, MySQL works the same way:")
        self._show_served(served[0])
        self._say("7. The checks of `oncelake prove`: no gap and no overlap, from the files to the last table:")
        proven = self._follow()
        self._say("8. The tables, compared with a count of the same files in plain Python:")
        checks = {"a second run changes no table": unchanged, "a replay changes no table": replayed}
        return checks | {"every link holds": proven} | self._count()

    def _run(self) -> None:
        display = Lines(lambda line: self.console.print(f"   {line}"))
        if not self.lake.run(once=True, show=lambda *_: display).batches:
            self.console.print("   no table was changed")

    def _replay(self) -> bool:
        for name in self.lake.settings.gold:
            commits = Path(self.lake.settings.places().checkpoint(f"gold.{name}")) / "commits"
            newest = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
            newest.unlink()
            (commits / f".{newest.name}.crc").unlink(missing_ok=True)
        before = self.lake.versions()
        self._run()
        return self._compare(before)

    def _compare(self, before: dict[str, int]) -> bool:
        after = self.lake.versions()
        grid = Grid("   table", "version before", "after", box=None, pad_edge=False)
        for table, version in before.items():
            grid.add_row(f"   {table}", str(version), str(after[table]))
        self.console.print(grid)
        return after == before

    def _show_quarantine(self) -> None:
        broken = self.lake.table(str(QUARANTINE)).select(F.explode("reasons.rule").alias("rule"))
        counts = broken.groupBy("rule").count().orderBy("rule").collect()
        text = ", ".join(f"{row['count']} {row['rule']}" for row in counts)
        self.console.print(f"   in quarantine, by rule: {text}")

    def _show_errors(self) -> None:
        rows = sorted(self._errors().items(), reverse=True)
        grid = Grid("   log_time (UTC)", "log_count", box=None, pad_edge=False)
        for row in (*rows[:4], None, *rows[-4:]):
            cells = (f"{row[0]:%Y-%m-%d %H:%M}", str(row[1])) if row else ("…", "")
            grid.add_row(f"   {cells[0]}", cells[1])
        self.console.print(grid)

    def _show_served(self, served: Served) -> None:
        query = f"SELECT log_time, log_count FROM {served.table.name} ORDER BY log_count DESC, log_time LIMIT 3"
        self.console.print(f"   {served.place}> {query};")
        assert isinstance(served.sink, SqlSink), "see sets_below"
        with served.sink.database.engine.connect() as connection:
            for at, count_ in connection.exec_driver_sql(query):
                self.console.print(f"   {at:.19}  {count_}")

    def _follow(self) -> bool:
        def say(link: Link) -> None:
            text = f"   {'holds' if link.holds else 'DOES NOT HOLD'}: {link.name}: {link.said}"
            self.console.print(text)

        return self.lake.prove(link=say).holds

    def _count(self) -> dict[str, bool]:
        answer = count(lines_of(self.root / "logs"), datetime.now(UTC))
        bronze, silver, broken = (self.lake.table(str(table)).count() for table in (BRONZE, SILVER, QUARANTINE))
        return self._judge(answer, bronze, silver, broken, self._errors())

    def _errors(self) -> Counter[datetime]:
        """Return the errors per minute; as seconds, since Spark collects timestamps in the machine's time zone."""
        rows = self.lake.table(str(ERRORS)).select(F.unix_seconds("log_time").alias("at"), "log_count").collect()
        return Counter({datetime.fromtimestamp(row["at"], UTC): row["log_count"] for row in rows})

    def _judge(
        self, answer: Answer, bronze: int, silver: int, broken: int, errors: Counter[datetime]
    ) -> dict[str, bool]:
        checks = (
            (f"bronze {bronze:,} = {answer.lines:,} lines in the files", bronze == answer.lines),
            (f"bronze {bronze:,} = silver {silver:,} + quarantine {broken:,}", bronze == silver + broken),
            (f"silver {silver:,} = {answer.parsed:,} lines that parse", silver == answer.parsed),
            (
                f"gold {errors.total():,} errors in {count_of(len(errors), 'minute')}, minute by minute the same",
                errors == answer.errors,
            ),
        )
        for text, holds in checks:
            self.console.print(f"   {'holds' if holds else 'DOES NOT HOLD'}: {text}")
        return dict(checks)

    def _say(self, text: str) -> None:
        self.console.print(f"\n{text}", style="bold")
