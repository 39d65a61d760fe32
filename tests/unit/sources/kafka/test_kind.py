"""The topics of a source are named one by one or by a pattern, and no two sources name the same one."""

from typing import Any

import pytest
from pydantic import ValidationError

from oncelake.bronze.settings import SourceSettings
from oncelake.common.models import one_line
from oncelake.engine.settings import Settings
from oncelake.sources.registry import kind_of

KAFKA: dict[str, Any] = {"kind": "kafka", "bootstrap_servers": "broker:9092"}


def source(**given: Any) -> SourceSettings:
    return SourceSettings(**{**KAFKA, **given})


def test_a_topic_is_one_name_or_a_list() -> None:
    assert source().topics == ("alog",)
    assert source(topic="web").topic == source(topic=["web"]).topic == "web"
    assert source(topic=["web", "app.1_-"]).topics == ("web", "app.1_-")
    assert source(topic=5).topics == ("5",)
    assert source(topic_pattern="app-.*").topics == ()
    assert source(topic="web", topic_pattern="").topics == ("web",)
    assert "topic_pattern" not in source().model_dump_json(), "older declarations keep their fingerprint"
    assert [kind_of(each).words for each in (source(), source(topic=["a", "b"]), source(topic_pattern="a.*"))] == [
        "topic alog",
        "topics a, b",
        "topics like a.*",
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topic": []}, "topic: expected a topic, or a list of topics, not an empty list, not []"),
        ({"topic": ["web", "web"]}, "topic: the list has topic web twice; remove one of them"),
        ({"topic": ["web", "a b"]}, "topic: 'a b' is no name of a topic: 1 to 249 of the characters"),
        ({"topic": {"a": 1}}, "topic: {'a': 1} is no name of a topic"),
        ({"topic": "a", "topic_pattern": "b"}, "source.topic_pattern does not go together with source.topic, which is"),
        ({"kind": "files", "path": "/x", "topic_pattern": "b"}, "does not go together with source.kind files"),
    ],
)
def test_a_wrong_choice_is_an_error_that_says_what_is_accepted(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        source(**given)
    assert said in one_line(caught.value)


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ({"topic": ["a", "b"]}, {"topic": ["c", "b"]}, True),
        ({"topic": ["a", "b"]}, {"topic": "c"}, False),
        ({"topic": ["web-1", "b"]}, {"topic_pattern": r"web-\d"}, True),
        ({"topic_pattern": r"web-\d"}, {"topic": "a-web-1"}, False),
        ({"topic_pattern": "a.*"}, {"topic_pattern": "a.*"}, True),
        ({"topic_pattern": "a.*"}, {"topic_pattern": ".*a"}, False),
        ({"topic": "a", "bootstrap_servers": "other:9092"}, {"topic": "a"}, False),
        ({"topic": "a"}, {"topic_pattern": "(?<java>a)"}, False),
    ],
)
def test_two_sources_that_name_one_topic_overlap(one: Any, other: Any, overlap: bool) -> None:
    kinds = [kind_of(source(**each)) for each in (one, other)]
    assert [kinds[0].overlaps(kinds[1]), kinds[1].overlaps(kinds[0])] == [overlap, overlap]


def test_two_sources_that_name_one_topic_are_refused() -> None:
    sources = {"x": {**KAFKA, "topic": ["web", "app"]}, "y": {**KAFKA, "topic_pattern": "ap."}}
    with pytest.raises(ValidationError) as caught:
        Settings(sources=sources, lake={"root": "/lake"})
    assert "sources.x and sources.y both read topics like ap. of Kafka at broker:9092" in one_line(caught.value)
