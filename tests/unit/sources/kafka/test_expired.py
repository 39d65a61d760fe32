"""A comparison with a topic begins again if records expire meanwhile, and ends with any other error."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from py4j.protocol import Py4JJavaError

from oncelake.common.errors import SourceError
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.sources.kafka.kind import again_if_expired
from oncelake.sources.kafka.records import Offsets
from oncelake.sources.kafka.source import LastRecords, Topic
from tests.support.memory import metadata


class GoneError(Py4JJavaError):  # type: ignore[misc]
    """What Spark raises when it cannot read a record, without a JVM."""

    def __init__(self) -> None:
        Exception.__init__(self, "a record cannot be read")

    def __str__(self) -> str:
        return "a record cannot be read"


BEFORE = Topic("id", {"0": 0, "1": 0}, {"0": 9, "1": 9})
ENDS: Offsets = {"alog": {"0": 5}}


def compared(*later: Topic, fails: int) -> int:
    """Return the oldest offset of the description by which a comparison ends well, after some that fail."""
    tried: list[int] = []
    described = iter(later)

    def compare(_: Offsets, now: Mapping[str, Topic], __: CommitMetadata) -> LastRecords:
        tried.append(now["alog"].earliest["0"])
        if len(tried) <= fails:
            raise GoneError
        return LastRecords()

    again_if_expired(compare, lambda: {"alog": next(described)})(ENDS, {"alog": BEFORE}, metadata(0))
    return tried[-1]


def at(offset: int) -> Topic:
    return replace(BEFORE, earliest={"0": offset, "1": 0})


def test_it_begins_again_with_the_records_that_are_left() -> None:
    assert compared(fails=0) == 0
    assert compared(at(3), fails=1) == 3
    assert compared(at(3), at(4), fails=2) == 4


def test_an_error_with_another_cause_is_raised_at_once() -> None:
    with pytest.raises(GoneError):
        compared(BEFORE, fails=9)
    with pytest.raises(GoneError):  # another partition, which is not read
        compared(replace(BEFORE, earliest={"0": 0, "1": 5}), fails=9)


def test_it_ends_however_fast_records_expire() -> None:
    with pytest.raises(GoneError):
        compared(at(1), at(2), at(3), at(4), fails=9)


@pytest.mark.parametrize("later", [replace(BEFORE, topic_id="new"), replace(BEFORE, latest={"0": 4, "1": 9})])
def test_a_topic_that_is_recreated_or_cut_meanwhile_is_named(later: Topic) -> None:
    with pytest.raises(SourceError, match=r"topic alog was recreated, or lost its end, .*oncelake doctor"):
        compared(later, fails=9)
