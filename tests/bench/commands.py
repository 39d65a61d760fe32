"""Measure the commands that only look beside those of an earlier version: seconds in all, and seconds of a core.

A lake is made by the earlier version, if one is given, in one batch for each file. Then each command runs with each
version in turn, and the median counts. `prove` and `report` prove all of the lake: the record of earlier proofs is
removed before. Run it with `python -m tests.bench.commands 20000000 500 --before CHECKOUT`, on a quiet machine.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.results import keep
from tests.bench.whole import BEGIN, LINES_A_SECOND, line, write_logs
from tests.support.places import ROOT

TIMES = 5
# Commands that an earlier version lacks, and exit codes other than 0.
_NEW, _EXITS = ("lines", "plan"), {"oncelake": 2}
# The commands, with what they need beside the lake: `{logs}` is its source, `{line}` a line of it, `{out}` a file.
COMMANDS: Mapping[str, Sequence[str]] = {
    "oncelake": (),
    "history": ("history",),
    "status": ("status",),
    "quarantine": ("quarantine",),
    "trace": ("trace", "{line}"),
    "lines": ("lines", "gold.error_log", "--at", f"{BEGIN:%Y-%m-%dT%H:%M}"),
    "census": ("census",),
    "plan": ("plan",),
    "suggest": ("suggest",),
    "prove": ("prove",),
    "report": ("report", "-o", "{out}"),
}


def main() -> None:
    """Print and keep the median seconds of each command with each version."""
    asked = _asked()
    trees = {"before": asked.before, "now": ROOT} if asked.before else {"now": ROOT}
    root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
    try:
        write_logs(root / "logs", asked.lines, asked.files)
        size = max(path.stat().st_size for path in (root / "logs").iterdir())
        fill = ["run", "--once", "--quiet", "--set", f"source.max_bytes_per_batch={size}"]
        began = time.monotonic()
        ran = _oncelake(next(iter(trees.values())), root, [*fill, "--set", f"run.max_bytes_per_batch={size // 20}"])
        assert ran == 0, "the lake could not be filled"
        print(f"{asked.lines:,} lines in {asked.files} batches: filled in {time.monotonic() - began:.0f} s", flush=True)
        for tree in trees.values():
            _oncelake(tree, root, ["prove"])  # what the first use of a version prepares
        medians = {name: _measured(name, trees, root, asked) for name in COMMANDS}
        print(keep(f"commands on {asked.lines} lines", {"files": asked.files, "median": medians}))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _measured(name: str, trees: Mapping[str, Path], root: Path, asked: argparse.Namespace) -> dict[str, list[float]]:
    """Return the median seconds of a command with each version that has it, from start to exit and of a core."""
    file, number = asked.files // 2, asked.lines // asked.files // 2
    text = line(file * (asked.lines // asked.files) + number + 1).rstrip("\n")
    values = {"line": f"{file:04d}.log:{text}", "out": root / "report.html"}
    arguments = [argument.format(**values) for argument in COMMANDS[name]]
    seconds: dict[str, list[tuple[float, float]]] = {}
    for _ in range(TIMES):
        for version, tree in trees.items():
            if version == "before" and name in _NEW:
                continue
            shutil.rmtree(root / "lake" / "_proofs", ignore_errors=True)
            began, used = time.monotonic(), _used()
            ended = _oncelake(tree, root, arguments)
            seconds.setdefault(version, []).append((time.monotonic() - began, _used() - used))
            assert ended == _EXITS.get(name, 0), f"{name} ended with {ended}, {version}"
    medians = {
        version: [round(statistics.median(side), 2) for side in zip(*runs, strict=True)]
        for version, runs in seconds.items()
    }
    said = (f"{whole:.2f} s ({core:.2f} s of a core) {version}" for version, (whole, core) in medians.items())
    print(f"{name}: {', '.join(said)}", flush=True)
    return medians


def _used() -> float:
    """Return the seconds of a core that all ended children have used."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _oncelake(tree: Path, root: Path, arguments: Sequence[str]) -> int:
    """Run a command of the version in a directory; return its exit code."""
    lake = ["--set", f"source.path={root}/logs", "--set", f"lake.root={root}/lake"] if arguments else []
    # with compiled modules, as an installation has them
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": f"{tree}/pipelines", "PYTHONPYCACHEPREFIX": str(root / "compiled")}
    command = [sys.executable, "-m", "oncelake", *arguments, *lake]
    return subprocess.run(command, env=environment, cwd=root, capture_output=True, check=False).returncode


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.commands", description=__doc__)
    parser.add_argument("lines", type=int, nargs="?", default=6_000, help="how many lines the lake has")
    parser.add_argument("files", type=int, nargs="?", default=3, help="in how many files and batches")
    parser.add_argument("--before", type=Path, help="the directory of a checkout of an earlier version")
    asked = parser.parse_args()
    assert asked.lines // asked.files > LINES_A_SECOND, "a file has at least a second of lines"
    return asked


if __name__ == "__main__":
    main()
