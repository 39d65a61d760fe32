"""The same two million lines from forty files, from four thousand, and from a Kafka topic of two partitions.

oncelake and the plain chain in turn, process start to exit, each into an empty lake. Run it by
`python -m tests.bench.sources`.
"""

import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pipelines.configuration import shipped_conf
from tests.bench.results import keep, page
from tests.bench.whole import ROUNDS, timed, write_logs
from tests.services.broker import Broker

LINES, FILES, TOPIC = 2_000_000, (40, 4_000), "alog"

Command = Callable[[Path], list[str]]


def oncelake(*sets: str) -> Command:
    """Give the command of a run over a source, by the lake."""
    shipped = [sys.executable, "-m", "pipelines", "run", "--once", "-c", str(shipped_conf() / "local.yaml")]
    return lambda lake: shipped + [part for each in (*sets, f"lake.root={lake}") for part in ("--set", each)]


def plain(source: str) -> Command:
    """Give the plain chain's command over a source, by the lake."""
    return lambda lake: [sys.executable, "-m", "tests.bench.programs.plain_chain", source, str(lake)]


def main() -> None:
    """Print the times of each round and the ratios, and keep them."""
    root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
    runs = []
    try:
        for files in FILES:
            logs = root / f"logs-{files}"
            write_logs(logs, LINES, files)
            programs = {"oncelake": oncelake(f"source.path={logs}"), "plain chain": plain(str(logs))}
            runs.append(compare(f"{files:,} files", programs, root / "lake"))
        with Broker(root / "kafka") as broker:
            broker.make_topic(TOPIC)
            for partition, log in enumerate(("*[02468].log", "*[13579].log")):
                for file in sorted((root / f"logs-{FILES[0]}").glob(log)):
                    broker.send(TOPIC, file.read_bytes().splitlines(), partition)
            sets = ("source.kind=kafka", f"source.bootstrap_servers={broker.servers}", f"source.topic={TOPIC}")
            programs = {"oncelake": oncelake(*sets), "plain chain": plain(f"kafka://{broker.servers}/{TOPIC}")}
            runs.append(compare("Kafka", programs, root / "lake"))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{keep('sources', {'lines': LINES, 'runs': runs})}, {page()}")


def compare(source: str, programs: dict[str, Command], lake: Path) -> dict[str, object]:
    """Run both programs in turn over a source."""
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(ROUNDS):
        for name, command in programs.items():
            seconds[name].append(timed(command(lake), lake))
            print(f"{source}, round {number + 1}: {name} {seconds[name][-1]:.1f} s", flush=True)
    median = {name: statistics.median(each) for name, each in seconds.items()}
    print(f"{source}: plain chain takes {median['plain chain'] / median['oncelake']:.2f} times as long", flush=True)
    return {"source": source, "seconds": seconds, "median": median}


if __name__ == "__main__":
    main()
