"""This is where the demo is told: run, run again, die and replay, late and broken lines, table and proof."""

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
from oncelake.lab.demo.answer import Answer, count
from oncelake.lab.demo.made_log import lines_of, write_late_and_broken, write_log
from oncelake.lakehouse import Lakehouse
from oncelake.observe.progress import Lines
from oncelake.proof.link import Link
from oncelake.serving.served import Served

LINES, LATE, BROKEN = 20_000, 200, 60
ERRORS = Table("gold", "error_log")


def sets_below(root: Path) -> list[str]:
    """Give the settings that put the demo's log and lake below a directory."""
    own = ["source.kind=files", "source.format=default", f"source.path={root / 'logs'}", f"lake.root={root / 'lake'}"]
    return [*own, f"serving.url=sqlite:///{root / 'served.db'}", f"serving.tables=[{ERRORS.name}]"]


def tell(console: Console, lake: Lakehouse, root: Path) -> dict[str, bool]:
    """Tell the story below a directory and give, by name, whether each part of the proof holds.

    Raises:
        ConfigError: the configuration declares no gold table error_log.
        OncelakeError: the directory is not empty.
    """
    if ERRORS.name not in lake.settings.gold:
        raise ConfigError(f"there is no gold table {ERRORS.name}, with which the demo ends; see conf/local.yaml")
    if any(root.iterdir()):
        raise OncelakeError(f"--keep {root}: the directory is not empty; name a new one")
    (root / "logs").mkdir()
    return Story(console, lake, root).tell()


@dataclass
class Story:
    """The demo's steps over one lake."""

    console: Console
    lake: Lakehouse
    root: Path

    def tell(self) -> dict[str, bool]:
        """Go through the steps and give what the proof found."""
        served = self.lake.make_served_tables().tables
        self._say(f"1. A log of {LINES:,} lines, out of order, in 4 files. The chain takes all of it in:")
        write_log(self.root / "logs", LINES)
        self._run()
        self._say("2. The same command again. Nothing is new, so no table gets a commit:")
        before = self.lake.versions()
        self._run()
        unchanged = self._compare(before)
        self._say("3. As if killed after gold's MERGE, before Spark noted that the batch was done. It is replayed:")
        replayed = self._replay()
        self._say(f"4. {LATE} lines that are 40 days late, and {BROKEN} broken ones:")
        write_late_and_broken(self.root / "logs", LATE, BROKEN)
        self._run()
        self._show_quarantine()
        self._say("5. The errors per minute that people asked for (gold.error_log), latest first:")
        self._show_errors()
        self._say("6. The same from SQL: the table is served from a database, here SQLite, and MySQL works alike:")
        self._show_served(served[0])
        self._say("7. The proof, as by `oncelake prove`: no gap and no overlap, from the files to the last table:")
        proven = self._follow()
        self._say("8. And the same files counted by plain Python:")
        kept = {"a second run changes no table": unchanged, "a replay changes no table": replayed}
        return kept | {"every link holds": proven} | self._count()

    def _run(self) -> None:
        display = Lines(lambda line: self.console.print(f"   {line}"))
        if not self.lake.run(once=True, show=lambda *_: display).batches:
            self.console.print("   no table was changed")

    def _replay(self) -> bool:
        for name in self.lake.settings.gold:
            commits = Path(self.lake.lake.checkpoint(f"gold.{name}")) / "commits"
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
        found = ", ".join(f"{row['count']} {row['rule']}" for row in counts)
        self.console.print(f"   in quarantine, by rule: {found}")

    def _show_errors(self) -> None:
        rows = sorted(self._errors().items(), reverse=True)
        grid = Grid("   log_time (UTC)", "log_count", box=None, pad_edge=False)
        for row in (*rows[:4], None, *rows[-4:]):
            cells = (f"{row[0]:%Y-%m-%d %H:%M}", str(row[1])) if row else ("…", "")
            grid.add_row(f"   {cells[0]}", cells[1])
        self.console.print(grid)

    def _show_served(self, served: Served) -> None:
        query = f"SELECT log_time, log_count FROM {served.table.name} ORDER BY log_count DESC, log_time LIMIT 3"
        self.console.print(f"   {served.database}> {query};")
        with served.database.engine.connect() as connection:
            for at, count_ in connection.exec_driver_sql(query):
                self.console.print(f"   {at:.19}  {count_}")

    def _follow(self) -> bool:
        def say(link: Link) -> None:
            said = f"   {'holds' if link.holds else 'DOES NOT HOLD'}: {link.name}: {link.said}"
            self.console.print(said)

        return self.lake.prove(link=say).holds

    def _count(self) -> dict[str, bool]:
        answer = count(lines_of(self.root / "logs"), datetime.now(UTC))
        bronze, silver, broken = (self.lake.table(str(table)).count() for table in (BRONZE, SILVER, QUARANTINE))
        return self._judge(answer, bronze, silver, broken, self._errors())

    def _errors(self) -> Counter[datetime]:
        """Read the errors per minute; a timestamp that is collected as such would come in the machine's own zone."""
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
