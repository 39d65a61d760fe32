"""Compare the same two million lines from forty files, from four thousand, and from a Kafka topic of two partitions.

oncelake and the plain chain run alternately, from process start to exit, each into an empty lake. For files that grow,
which the plain chain cannot read, oncelake takes turns with itself on complete files. Run it with
`python -m tests.bench.sources`.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from tests.bench.programs.oncelake import command
from tests.bench.programs.plain_chain import KAFKA
from tests.bench.results import keep, page
from tests.bench.whole import in_turn, write_logs
from tests.support.broker import Broker

LINES, FILES, TOPIC = 2_000_000, (40, 4_000), "alog"


def main() -> None:
    """Print and keep the times of each round and the ratios."""
    root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
    runs = []
    try:
        for files in FILES:
            logs = root / f"logs-{files}"
            write_logs(logs, LINES, files)
            runs.append(compare(f"{files:,} files", str(logs), (f"source.path={logs}",), root / "lake"))
        logs, lake = root / f"logs-{FILES[0]}", root / "lake"
        places = (f"source.path={logs}", f"lake.root={lake}")
        commands = {"oncelake": command(*places), "as files that grow": command("source.kind=tail", *places)}
        runs.append({"source": "files that grow", **in_turn("files that grow", commands, lake)})
        with Broker(root / "kafka") as broker:
            broker.make_topic(TOPIC)
            for partition, log in enumerate(("*[02468].log", "*[13579].log")):
                for file in sorted((root / f"logs-{FILES[0]}").glob(log)):
                    broker.send(TOPIC, file.read_bytes().splitlines(), partition)
            sets = ("source.kind=kafka", f"source.bootstrap_servers={broker.servers}", f"source.topic={TOPIC}")
            runs.append(compare("Kafka", f"{KAFKA}{broker.servers}/{TOPIC}", sets, root / "lake"))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{keep('sources', {'lines': LINES, 'runs': runs})}, {page()}")


def compare(name: str, source: str, sets: tuple[str, ...], lake: Path) -> dict[str, object]:
    """Run both programs alternately over a source; each gets the source in its own notation."""
    plain = [sys.executable, "-m", "tests.bench.programs.plain_chain", source, str(lake)]
    commands = {"oncelake": command(*sets, f"lake.root={lake}"), "plain chain": plain}
    return {"source": name, **in_turn(name, commands, lake)}


if __name__ == "__main__":
    main()
