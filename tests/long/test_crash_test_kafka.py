"""A crash test on a real broker, in a topic of its own, ends clean and deletes the topic."""

import json
from pathlib import Path

import pytest

from tests.support.broker import Broker
from tests.support.house import House

pytestmark = [pytest.mark.kafka, pytest.mark.chain, pytest.mark.long]


def test_kills_lose_nothing_and_the_topic_is_deleted(house: House, tmp_path: Path) -> None:
    with Broker(tmp_path / "kafka") as broker:
        broker.make_topic("alog")
        house.sets = ["source.kind=kafka", f"source.bootstrap_servers={broker.servers}"]
        said = house.call("crash-test", "--kills", "2", "--seed", "4", "--json")
        figures = json.loads(said.splitlines()[-1])
        assert (figures["lost"], figures["doubled"], figures["prove_holds"]) == (0, 0, True)
        assert (figures["source"], figures["kills"], figures["rows"]) == ("kafka", 2, 900)
        topics = broker.admin.list_topics(timeout=10).topics
        assert "alog" in topics
        assert [name for name in topics if name.startswith("oncelake")] == []
    assert not house.lake.exists()
