"""The kinds of sources that sequences are played on."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.chaos import draw
from tests.chaos.growing import Logs
from tests.chaos.operations import Place
from tests.chaos.ruled import Ruled, RuledLogs
from tests.chaos.sources import Sources
from tests.chaos.steps import Step
from tests.chaos.topic import Topic
from tests.chaos.whole import Whole
from tests.chaos.world import Directory, World
from tests.support.broker import Broker


@dataclass(frozen=True)
class Kind:
    """A kind of source.

    Attributes:
        words: what a sequence is played on.
        draw: draws a sequence from a seed.
        make: makes a source and what belongs to it in a directory; None if it needs a broker.
        share: one sequence of this kind is played for each such number on a directory.
    """

    words: str
    draw: Callable[[int], list[Step]]
    make: Callable[[Path], World] | None
    share: int


def _directory(directory: Path, *, records: bool) -> World:
    return Directory(Place.below(directory), records)


def _logs(directory: Path, *, records: bool) -> World:
    return Logs(Place.below(directory), records)


def _ruled(directory: Path) -> World:
    return Ruled(Place.below(directory))


def _ruled_logs(directory: Path) -> World:
    return RuledLogs(Place.below(directory))


def _whole(directory: Path) -> World:
    return Whole(Place.below(directory), directory=directory)


def topics(broker: Broker) -> Callable[[Path], World]:
    """Return what makes a topic for each sequence."""
    return lambda _: Topic(broker, f"chaos-{time.time_ns()}")


KINDS = {
    "files": Kind("a directory", draw.draw, partial(_directory, records=False), 1),
    "records": Kind("a directory, with records of several lines", draw.draw, partial(_directory, records=True), 10),
    "rules": Kind(
        "a directory whose lines are masked, extended by own code and dropped as repeats", draw.draw, _ruled, 10
    ),
    "tail": Kind("growing files", draw.draw_logs, partial(_logs, records=False), 1),
    "tail-records": Kind(
        "growing files, with records of several lines", draw.draw_records, partial(_logs, records=True), 10
    ),
    "tail-rules": Kind("growing files, with the same rules", draw.draw_logs, _ruled_logs, 10),
    "sources": Kind("two sources of one lake", draw.draw_sources, Sources.below, 10),
    "whole": Kind(
        "a directory with the whole chain: silver, a changing gold table and a sink", draw.draw_whole, _whole, 10
    ),
    "topic": Kind("a Kafka topic", draw.draw_topic, None, 10),
}
