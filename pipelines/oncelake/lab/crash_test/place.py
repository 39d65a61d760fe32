"""The directory of a crash test, with its own lake: temporary, or kept."""

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
        is_kept: True if it is kept after the test.
    """

    root: Path
    is_kept: bool

    @property
    def lake(self) -> Lake:
        """Return the lake under test."""
        return Lake(str(self.root / "lake"), str(self.root / "checkpoints"))

    @property
    def served(self) -> Path:
        """Return the path of the serving database; it is used if the configuration serves tables."""
        return self.root / "served.db"


@contextmanager
def place_for(keep: Path | None) -> Iterator[CrashTestPlace]:
    """Yield the directory of a crash test; it is deleted at the end, unless `keep` names it or the test fails.

    Raises:
        OncelakeError: the directory `keep` is not empty; also any OncelakeError of the test, with the path added.
    """
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise OncelakeError(f"--keep {keep}: the directory is not empty; name a new or empty one")
    place = CrashTestPlace((keep or Path(tempfile.mkdtemp(prefix="oncelake-crash-test-"))).absolute(), keep is not None)
    try:
        yield place
    except ConfigError:
        raise
    except OncelakeError as error:
        place.is_kept = True
        raise type(error)(f"{error} (the files are kept in {place.root})") from error
    finally:
        if not place.is_kept:
            shutil.rmtree(place.root, ignore_errors=True)


def copy_lake(lake: Lake, to: Lake) -> None:
    """Copy tables and checkpoints, while no process writes them.

    Raises:
        ConfigError: the lake is not on a local disk, or does not exist.
        LockedError: a process is writing the lake.
    """
    if not (is_local(lake.root) and is_local(lake.checkpoints)):
        raise ConfigError(
            f"--copy-lake: {lake.root} is not on this machine; remove the flag to test with an empty lake"
        )
    if not Path(lake.root).is_dir():
        raise ConfigError(f"--copy-lake: there is no lake {lake.root}; remove the flag to test with an empty lake")
    with _no_writer(lake):
        inside = Path(lake.checkpoints)
        shutil.copytree(
            lake.root,
            to.root,
            ignore=lambda parent, names: [name for name in names if Path(parent, name) == inside or name == NAME],
        )
        if inside.is_dir():
            # serving starts from the beginning, because the test has its own, empty database
            shutil.copytree(inside, to.checkpoints, ignore=lambda parent, _: ["serving"] * (Path(parent) == inside))


@contextmanager
def _no_writer(lake: Lake) -> Iterator[None]:
    """Hold a shared lock, so that no run can start to write; a shared lock needs no write permission on the file."""
    lock = Path(lake.root) / NAME
    if not lock.exists():
        yield
        return
    with lock.open("rb") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            holder = writer(lake) or "another process"
            # guard: written-lake-not-copied
            raise LockedError(f"--copy-lake: {lake.root} is being written by {holder}; stop it first") from None
        yield
