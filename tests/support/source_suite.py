"""The promises of every kind of source, as tests that a kind inherits; it writes one `SourceWorld`.

A subclass of `SourceSuite` names its kind and returns its world. `tests/unit/sources/test_kind.py` requires one for
each kind.
"""

import json
import shutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import Any, ClassVar

import deltalake
import pyarrow
import pyarrow.parquet
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError, StateError
from oncelake.common.spark.jvm import jvm
from oncelake.exactly_once.checkpoint import offset_log, position
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from oncelake.exactly_once.link import Link
from oncelake.exactly_once.positions import SourcePosition, TablePosition, TablesPosition, same_position
from oncelake.sources.kafka.position import KafkaPosition
from oncelake.sources.registry import KINDS, position_of
from tests.support.crashing import crashed
from tests.support.house import House
from tests.support.lakes import BATCHES, LINES
from tests.support.processes import newest
from tests.support.writers import each_writer

BRONZE = "bronze/access_log"


@dataclass
class SourceWorld(ABC):
    """A source that a test changes, and the lake that reads it.

    Attributes:
        house: the lake.
    """

    house: House

    def __post_init__(self) -> None:
        self.house.sets = self.settings

    @property
    @abstractmethod
    def settings(self) -> list[str]:
        """Return the settings of the source."""

    @abstractmethod
    def add(self, *lines: bytes) -> int:
        """Add lines as one piece of input; return by how much the backlog grows, in its unit."""

    @abstractmethod
    def add_no_line(self) -> None:
        """Add input that has no line."""

    @abstractmethod
    def lose(self) -> None:
        """Remove the lines that were added first."""

    @abstractmethod
    def another(self) -> list[str]:
        """Make another source of this kind, with a line, and return its settings."""


class SourceSuite:
    """The tests.

    Attributes:
        kind: the value of `source.kind`.
    """

    kind: ClassVar[str]

    @pytest.fixture
    def world(self) -> SourceWorld:
        """Return a source without lines, and a lake that has not read it."""
        raise NotImplementedError

    def test_a_position_grows_and_is_one_of_this_kind_alone(self, world: SourceWorld, spark: SparkSession) -> None:
        own = KINDS[self.kind].positions
        others: set[type[SourcePosition]] = {TablePosition, TablesPosition}
        others |= {each for kind in KINDS.values() for each in kind.positions if each not in own}
        numbers: list[Mapping[str, int]] = []
        for lines in BATCHES:
            world.add(*lines)
            world.house.run(spark)
            at = _position(world.house)
            (found,) = (each for each in (of_kind.parse(at) for of_kind in own) if each is not None)
            assert position_of(at) == found
            assert [other for other in others if other.parse(at) is not None] == []
            of_topics = {key: {"0": 3} for key in json.loads(at)}
            assert position_of(json.dumps(of_topics)) == KafkaPosition(of_topics), "a topic can have this name"
            assert found.words("the source")
            metadata = DeltaLog(LocalFiles(), str(world.house.table(BRONZE))).state().metadata
            assert metadata is not None
            assert same_position(metadata.end, at)
            numbers.append(found.numbers())
        for before, after in pairwise(numbers):
            assert all(after[part] >= number for part, number in before.items())
            assert sum(after.values()) > sum(before.values())

    @each_writer
    def test_a_crash_before_or_after_any_step_of_a_batch_loses_nothing(
        self, world: SourceWorld, spark: SparkSession, small_batch: str
    ) -> None:
        house, written = world.house, list[bytes]()
        house.sets = [*house.sets, f"run.small_batch={small_batch}"]
        numbers = count()
        for _ in range(2):
            for step in self.steps(house.checkpoint("bronze")):
                for before in (True, False):
                    lines = [b"2017-07-30 14:09:08 ERROR %d" % next(numbers) for _ in range(50)]
                    world.add(*lines)
                    written += lines
                    with crashed(spark, step, before=before), pytest.raises((StageError, Py4JJavaError)):
                        house.run(spark)
            house.run(spark)
            _must_hold(house, spark, written)

    def steps(self, checkpoint: Path) -> Iterator[str]:
        """Yield every file that the next batch of bronze writes, in order."""
        kind, batch = KINDS[self.kind], newest(checkpoint / "offsets") + 1
        if batch == 0:
            yield from (f"{BRONZE}/_delta_log/{0:020}.json", "_checkpoints/bronze/metadata")
        if kind.lists_batches or (batch == 0 and any(each.before_all for each in kind.positions)):
            yield f"_checkpoints/bronze/sources/0/{newest(checkpoint / 'sources' / '0') + 1}"
        yield f"_checkpoints/bronze/offsets/{batch}"
        yield f"{BRONZE}/_delta_log/{batch + 1:020}.json"
        yield f"_checkpoints/bronze/commits/{batch}"

    def test_what_waits_is_counted_and_named_until_it_is_read(self, world: SourceWorld, spark: SparkSession) -> None:
        house = world.house
        for lines in BATCHES:
            added = world.add(*lines)
            assert _waits(house, spark) == added
            house.run(spark)
            assert _waits(house, spark) == 0
        world.add_no_line()
        house.run(spark)
        _must_hold(house, spark, LINES)
        assert _waits(house, spark) == 0

    def test_a_lost_checkpoint_is_recovered_from_the_table(self, world: SourceWorld, spark: SparkSession) -> None:
        house = world.house
        for lines in BATCHES[:2]:
            world.add(*lines)
            house.run(spark)
        shutil.rmtree(house.checkpoint("bronze"))
        world.add(*BATCHES[2])
        versions = house.versions()
        with pytest.raises(StateError, match=r"(?s)bronze: checkpoint lost.*oncelake recover bronze"):
            house.run(spark)
        assert house.versions() == versions
        assert house.recover(spark, "bronze")["bronze"].steps
        house.run(spark)
        _must_hold(house, spark, LINES)

    def test_a_rebuild_reads_all_lines_again_and_refuses_if_some_are_gone(
        self, world: SourceWorld, spark: SparkSession
    ) -> None:
        house = world.house
        for lines in BATCHES:
            world.add(*lines)
            house.run(spark)
        house.rebuild(spark, "bronze")
        _must_hold(house, spark, LINES)
        world.lose()
        assert house.run(spark) == []
        assert house.doubts(spark) == []
        versions = house.versions()
        with pytest.raises(StateError, match=r"(?s)bronze is not rebuilt: .*--accept-loss"):
            house.rebuild(spark, "bronze")
        assert house.versions() == versions
        house.rebuild(spark, "bronze", accept_loss=True)
        _must_hold(house, spark, [line for lines in BATCHES[1:] for line in lines])

    def test_another_source_is_refused(self, world: SourceWorld, spark: SparkSession) -> None:
        house = world.house
        world.add(*BATCHES[0])
        house.run(spark)
        versions, house.sets = house.versions(), world.another()
        chain = house.chain(spark)
        with pytest.raises(StateError, match=rf"bronze: source replaced: .*{chain.kind(chain.stages[0]).name}"):
            house.run(spark)
        assert house.versions() == versions
        house.sets = world.settings
        assert house.run(spark) == []

    def test_a_proof_finds_a_row_that_was_changed_by_hand(self, world: SourceWorld, spark: SparkSession) -> None:
        house = world.house
        for lines in BATCHES:
            world.add(*lines)
            house.run(spark)
        assert _faults(house, spark) == []
        for name, change in CHANGES.items():
            with _changed(house, spark, change):
                assert [link.table for link in _faults(house, spark)] == ["bronze.access_log"], name
        assert _faults(house, spark) == []


def _must_hold(house: House, spark: SparkSession, lines: list[bytes]) -> None:
    """Check that bronze has each line once, that every table fits, and that a proof holds."""
    assert Counter(row["value"] for row in house.rows(BRONZE)) == Counter(lines)
    house.must_be(lines)
    assert house.doubts(spark) == []


def _position(house: House) -> str:
    """Return the position after bronze's last batch, as Spark wrote it."""
    checkpoint = house.checkpoint("bronze")
    at = position(offset_log(LocalFiles(), str(checkpoint), newest(checkpoint / "offsets")) or "")
    assert at is not None
    return at


def _waits(house: House, spark: SparkSession) -> int | None:
    """Return how much of the source waits for bronze, and check that a proof names the same."""
    links = house.lakehouse(spark).prove().links
    assert [link.said for link in links if not link.holds] == []
    parts = [part for link in links if link.table == "bronze.access_log" for part in link.uncompared]
    assert all(part.waits for part in parts)
    backlog = house.lakehouse(spark).status()[0].backlog
    assert backlog == sum(part.count for part in parts)
    return backlog


def _faults(house: House, spark: SparkSession) -> list[Link]:
    """Return the links of a deep proof that do not hold."""
    links: list[Link] = house.lakehouse(spark).prove(full=True, deep=True).links
    return [link for link in links if not link.holds]


def _other_value(rows: Any) -> Any:
    """Return the rows with another last character in the value of the first one."""
    first, *others = rows["value"].to_pylist()
    values = pyarrow.array([first[:-1] + b"?", *others], rows.schema.field("value").type)
    return rows.set_column(rows.schema.get_field_index("value"), "value", values)


CHANGES: Mapping[str, Callable[[Any], Any]] = {
    "a row is deleted": lambda rows: rows.slice(1),
    "a row is doubled": lambda rows: pyarrow.concat_tables([rows, rows.slice(0, 1)]),
    "a row is replaced by another one": lambda rows: rows.take([1, *range(1, len(rows))]),
    "a row is changed": _other_value,
}


@contextmanager
def _changed(house: House, spark: SparkSession, change: Callable[[Any], Any]) -> Iterator[None]:
    """Change the rows of bronze's first batch in their file, with the file's size in the Delta log."""
    table = house.table(BRONZE)
    commit = table / "_delta_log" / f"{1:020}.json"
    (name,) = {*deltalake.DeltaTable(table, 1).file_uris()}
    file = Path(name)
    was = {path: path.read_bytes() for path in (file, commit)}
    sums = [table / "_delta_log" / f".{commit.name}.crc", file.with_name(f".{file.name}.crc")]
    for path in sums:
        path.unlink(missing_ok=True)
    pyarrow.parquet.write_table(change(pyarrow.parquet.read_table(file)), file)
    before, after = (f'"size":{size}'.encode() for size in (len(was[file]), file.stat().st_size))
    assert before in was[commit]
    commit.write_bytes(was[commit].replace(before, after))
    jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
    try:
        yield
    finally:
        for path, content in was.items():
            path.write_bytes(content)
        jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
