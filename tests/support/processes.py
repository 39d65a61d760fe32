"""Wait until a process of the program has reached a certain point."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

# small batches, so that every run has many durable steps to be killed between
SMALL = ["source.max_bytes_per_batch=20000", "run.max_bytes_per_batch=20000", "run.trigger=0 seconds"]


def wait_for(process: subprocess.Popen[str], happened: Callable[[], bool], seconds: float = 240) -> None:
    until = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if happened():
            return
        assert process.poll() is None, process.communicate()[0]
        assert began < until
        # an expensive check would take the cores from the process
        time.sleep(max(0.005, 4 * (time.monotonic() - began)))


def has_unread_data(pid: int) -> bool:
    """Return True if a process has not read all that its TCP connections have received, as a suspended one does."""
    opened = {str(descriptor.readlink()) for descriptor in Path(f"/proc/{pid}/fd").iterdir()}
    tables = (Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6"))
    # Source: proc_pid_net(5); the fifth field has the two queues, the tenth is the number of the socket
    sockets = (line.split() for table in tables for line in table)
    return any(f"socket:[{fields[9]}]" in opened and not fields[4].endswith(":00000000") for fields in sockets)


def newest(directory: Path) -> int:
    names = (path.stem for path in directory.glob("*") if path.stem.isdigit()) if directory.exists() else ()
    return max(map(int, names), default=-1)
