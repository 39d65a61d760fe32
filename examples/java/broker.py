"""Run a command with a Kafka broker of its own, which ends with it.

    python3 broker.py sh run.sh

The broker is downloaded once. Its topic is a new one each time, so the lake of an earlier time is removed. If
confluent-kafka is missing, it is installed into data/python.
"""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from oncelake.lab.demo.broker import Broker

DATA = Path("data").absolute()


def main(command: list[str]) -> int:
    """Run the command, and return its exit code."""
    shutil.rmtree(DATA / "lake", ignore_errors=True)
    (DATA / "served.db").unlink(missing_ok=True)
    environment = dict(os.environ)
    if find_spec("confluent_kafka") is None:
        place = str(DATA / "python")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", place, "confluent-kafka"]
        subprocess.run(pip, check=True)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (place, os.environ.get("PYTHONPATH"))))
    with Broker(DATA / "kafka") as broker:
        environment["ONCELAKE_SOURCE__BOOTSTRAP_SERVERS"] = broker.servers
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
