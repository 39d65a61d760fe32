"""Each kind of source answers for itself; a new kind is read, distinguished from the others and proven."""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Self, cast, get_args

import pytest

from oncelake.bronze.settings import SourceSettings
from oncelake.exactly_once.positions import SourcePosition
from oncelake.exactly_once.source import Backlog, Source
from oncelake.exactly_once.state import Diagnosis, State
from oncelake.proof.positions import between, goes_back
from oncelake.sources.files.source import FilesSource
from oncelake.sources.kafka.position import KafkaPosition
from oncelake.sources.kafka.source import KafkaSource, Topic
from oncelake.sources.proof import what_waits
from oncelake.sources.registry import KINDS, kind_of, position_of
from tests.support.memory import MemoryFiles, metadata, offsets
from tests.support.places import ROOT


@dataclass(frozen=True)
class QueuePosition(SourcePosition):
    """A position in a queue that the chain does not know."""

    message: int

    @classmethod
    def of(cls, value: Any) -> Self | None:
        return cls(value["queue"]) if "queue" in value else None

    def numbers(self) -> dict[str, int]:
        return {"queue": self.message}


@dataclass(frozen=True)
class Queue(Source):
    """A queue that the chain does not know."""

    waits: int | None = 0
    found: Diagnosis | None = None

    def identity(self) -> Mapping[str, str]:
        return {"kind": "queue", "queue": "orders"}

    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Diagnosis | None:
        del start, end, recorded
        return self.found

    def backlog(self, at: str | None, *, changes: bool = False) -> Backlog:
        del at, changes
        return Backlog(self.waits, "records")


def test_every_kind_that_the_settings_accept_has_its_class() -> None:
    assert KINDS.keys() == set(get_args(SourceSettings.model_fields["kind"].annotation))


def test_every_kind_inherits_the_suite_of_sources() -> None:
    assert sorted(kinds_with_the_suite()) == sorted(KINDS)


def test_no_other_module_may_import_a_kind() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    contracts = {contract["name"]: contract for contract in tools["importlinter"]["contracts"]}
    contract = contracts["only the registry names a kind of source"]
    folders = {class_.__module__.rpartition(".")[0] for class_ in KINDS.values()}
    assert set(contract["forbidden_modules"]) == folders


def kinds_with_the_suite() -> Iterator[str]:
    """Yield the kind of each subclass of the suite that pytest collects."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        for each in ast.parse(text).body if "(SourceSuite)" in text else ():
            if isinstance(each, ast.ClassDef) and each.name.startswith("Test") and "SourceSuite" in ast.dump(each):
                yield from re.findall(r"^    kind = '(\w+)'$", ast.unparse(each), re.MULTILINE)


def test_every_kind_has_a_readable_name() -> None:
    topic = kind_of(SourceSettings(kind="kafka", topic="alog", bootstrap_servers="host:1", path="/logs"))
    assert (topic.name, topic.words, topic.directory) == ("alog", "topic alog", None)
    assert topic.words_with_place == "topic alog of Kafka at host:1"
    files = kind_of(SourceSettings(path="/logs/../app"))
    assert (files.name, files.words, files.directory) == ("/app", "files in /logs/../app", "/logs/../app")
    assert files.words_with_place == files.words


def test_a_census_of_a_source_without_files_is_refused_before_spark_starts() -> None:
    topic = kind_of(SourceSettings(kind="kafka", bootstrap_servers="host:1"))
    assert topic.uncounted(None) == (
        "the source is a Kafka topic, which has no files; to check its offsets, run: oncelake prove"
    )
    assert kind_of(SourceSettings(path="/logs")).uncounted(None) is None


def test_a_position_of_another_source_is_recognized_by_its_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast(dict[str, Any], KINDS), "queue", SimpleNamespace(positions=(QueuePosition,)))
    assert position_of('{"queue":7}') == QueuePosition(7)
    assert [KafkaPosition.parse(at) for at in ('{"queue":7}', '{"queue":{"message":7}}')] == [None, None]
    assert position_of('{"alog":{"0":3}}') == KafkaPosition({"alog": {"0": 3}})
    with pytest.raises(ValueError, match="is not a position"):
        position_of('{"stack":7}')
    assert goes_back('{"queue":7}', '{"queue":3}', "orders")
    assert between('{"queue":3}', '{"queue":7}', "orders") == "skips queue/3 to 6"


def test_lines_of_another_kind_of_source_are_not_continued() -> None:
    was = Queue().identity()
    topic = KafkaSource("alog", lambda: {"alog": Topic("id", {"0": 0}, {"0": 9})}, MemoryFiles(), "c")
    files = FilesSource("/logs", MemoryFiles(), "c")
    for source in (topic, files):
        found = source.trouble(None, None, was)
        assert found is not None
        assert found.state is State.SOURCE_REPLACED
        assert "lines were read from queue orders" in found.seen


@pytest.mark.parametrize("name", ["logOffset", "seqNum", "tail", "reservoirId"])
def test_a_topic_can_have_the_name_of_a_key_of_other_positions(name: str) -> None:
    assert position_of(f'{{"{name}":{{"0":3}}}}') == KafkaPosition({name: {"0": 3}})


@pytest.mark.parametrize(
    ("source", "may_start", "holds", "said"),
    [
        (Queue(0), False, True, "read up to the end"),
        (Queue(1200), True, True, "1,200 records wait for the next run"),
        (Queue(1), True, True, "1 record waits for the next run"),
        (Queue(1), False, False, "1 record waits and no run reads it, as bronze would not start"),
        (Queue(3), False, False, "3 records wait and no run reads them, as bronze would not start"),
        (Queue(None), True, True, "an unknown number of records wait for the next run"),
        (
            Queue(0, Diagnosis(State.SOURCE_TRIMMED, "messages 1 to 4 are gone")),
            True,
            False,
            "messages 1 to 4 are gone",
        ),
    ],
)
def test_any_source_is_proven_by_its_own_answers(source: Queue, may_start: bool, holds: bool, said: str) -> None:
    at = metadata(0, "bronze.access_log", after=offsets({"queue": 7}), source=source.identity())
    for bronze in (None, at):
        link = what_waits("orders", source, bronze, may_start=may_start)
        assert (link.name, link.holds, link.said) == ("orders → bronze.access_log", holds, said)
        assert [part.waits for part in link.uncompared] == ([True] if source.waits != 0 else [])
