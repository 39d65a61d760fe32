"""This is where a crash test's own lake is: below a temporary directory, or one that is kept."""

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from oncelake.common.errors import ConfigError, LockedError, OncelakeError
from oncelake.common.lake import Lake, is_local
from oncelake.exactly_once.lease import NAME, writer


@dataclass
class CrashTestPlace:
    """A crash test's directory.

    Attributes:
        kept: whether it stays when the test is over.
    """

    root: Path
    kept: bool

    @property
    def lake(self) -> Lake:
        """The lake that is tested."""
        return Lake(str(self.root / "lake"), str(self.root / "checkpoints"))

    @property
    def served(self) -> Path:
        """The database that its tables are served from, where the configuration serves any."""
        return self.root / "served.db"


@contextmanager
def place_for(keep: Path | None) -> Iterator[CrashTestPlace]:
    """Give a directory, which is removed at the end unless it was asked for or something is wrong.

    Raises:
        OncelakeError: the directory that was asked for is not empty; or any from inside, with the place added.
    """
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise OncelakeError(f"--keep {keep}: the directory is not empty; name a new one")
    place = CrashTestPlace((keep or Path(tempfile.mkdtemp(prefix="oncelake-crash-test-"))).absolute(), keep is not None)
    try:
        yield place
    except ConfigError:
        raise
    except OncelakeError as error:
        place.kept = True
        raise type(error)(f"{error} (all is kept in {place.root})") from error
    finally:
        if not place.kept:
            shutil.rmtree(place.root, ignore_errors=True)


def copy_lake(lake: Lake, to: Lake) -> None:
    """Copy tables and checkpoints, while nobody writes them.

    Raises:
        ConfigError: the lake is on another store, or there is none.
        LockedError: a process is writing it.
    """
    if not (is_local(lake.root) and is_local(lake.checkpoints)):
        raise ConfigError(
            f"--copy-lake: {lake.root} is not on this machine; leave the flag out to test on an empty lake"
        )
    if not Path(lake.root).is_dir():
        raise ConfigError(f"--copy-lake: there is no lake {lake.root}; leave the flag out to test on an empty lake")
    with _no_writer(lake):
        inside = Path(lake.checkpoints)
        shutil.copytree(
            lake.root,
            to.root,
            ignore=lambda parent, names: [name for name in names if Path(parent, name) == inside or name == NAME],
        )
        if inside.is_dir():
            # what is served starts anew: the database is the test's own
            shutil.copytree(inside, to.checkpoints, ignore=lambda parent, _: ["serving"] * (Path(parent) == inside))


@contextmanager
def _no_writer(lake: Lake) -> Iterator[None]:
    """Keep runs from starting to write; a lock that is shared needs no right to write the file."""
    lock = Path(lake.root) / NAME
    if not lock.exists():
        yield
        return
    with lock.open("rb") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            holder = writer(lake) or "another process"
            raise LockedError(f"--copy-lake: {lake.root} is being written by {holder}; stop that one first") from None
        yield
