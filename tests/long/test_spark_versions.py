"""A lake of files moves between versions of Spark at each durable step of small batches, and goes on exactly."""

import json
import subprocess
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT
from tests.support.sparks import RELEASES, environment

pytestmark = [pytest.mark.chain, pytest.mark.long]  # two starts of Spark, and two runs for each point


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("first", "second"), [*permutations(RELEASES, 2)])
def test_a_lake_that_stops_anywhere_goes_on_with_another_spark(first: str, second: str, tmp_path: Path) -> None:
    points = _moved("stop", first, tmp_path)
    assert points > 50
    said = _moved("go-on", second, tmp_path)
    assert len(said) == points
    assert {point: how for point, how in said.items() if how != "exact"} == {}


def _moved(how: str, line: str, place: Path) -> Any:
    command = [sys.executable, "-m", "tests.support.moved", how, str(place)]
    done = subprocess.run(command, env=environment(line), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout[done.stdout.index("{\n") :])
    assert said["spark"] == RELEASES[line]
    return said["said"]
