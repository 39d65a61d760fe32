"""An alert for a spike through five kills: at least one message, all with one key; and nothing is counted twice."""

import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from oncelake.observe.alerts.state import directory
from tests.support.house import House, error_log_conf, kill_group, until
from tests.support.processes import SMALL, wait_for
from tests.support.receivers import web

pytestmark = [pytest.mark.chain, pytest.mark.long]

KILLS = 5
LIMIT = 400


@pytest.mark.timeout(1800)
def test_an_alert_for_a_spike_through_five_kills_has_one_key(tmp_path: Path) -> None:
    house = House.with_error_log(tmp_path)
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    draw = random.Random(seed)
    house.sets = SMALL
    spike = datetime.now(UTC).replace(second=0, microsecond=0, tzinfo=None) + timedelta(minutes=1)
    lines = []
    with web() as server:
        alert = {"when": f"error_log.log_count > {LIMIT}", "to": {"kind": "webhook", "url": server.url}}
        house.conf.write_text(yaml.safe_dump({**error_log_conf(), "alerts": {"spike": alert}}))
        server.slow = 1.5  # so that a kill can fall between a message and its record
        due = house.lake / directory("", "spike").lstrip("/")
        for kill in range(KILLS):
            process = house.start("run")
            wait_for(process, due.exists)
            for part in range(4):
                found = [f"{spike} ERROR {kill} {part} {n}".encode() for n in range(60)]
                lines += found
                house.write(f"{kill}-{part}.log", *found)
            if kill == 0:
                time.sleep(draw.uniform(4, 16))  # within the first batches
            elif kill == 1:
                wait_for(process, lambda: house.errors().total() > LIMIT, 240)  # the spike is in gold
                time.sleep(draw.uniform(0, 1))
            elif kill == 2:
                until(lambda: server.asked > 0, 90)  # the message is on its way, and not recorded as sent
                time.sleep(draw.uniform(0, 1.4))
            else:
                time.sleep(draw.uniform(4, 25))
            kill_group(process)
            print(f"kill {kill + 1}: {len(server.got)} messages so far")
        server.slow = 0
        house.call("run", "--once")
        house.must_be(lines)
        begun = [each for each in server.got if each["status"] == "alert"]
        assert len(begun) >= 1
        assert {each["window"] for each in begun} == {f"{spike:%Y-%m-%dT%H:%M:%S}Z to {_next(spike)}"}
        assert len({each["key"] for each in server.got}) == 1
        print(f"{len(begun)} messages, and {len(server.got) - len(begun)} end messages, all with {begun[0]['key']}")
        before = len(server.got)
        house.call("alerts", "send")
        house.call("run", "--once")
        assert [each["status"] for each in server.got[before:]] in ([], ["end"])
    house.call("prove")


def _next(minute: datetime) -> str:
    return f"{minute + timedelta(minutes=1):%Y-%m-%dT%H:%M:%S}Z"
