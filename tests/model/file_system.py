"""A file system in memory, with the faults of a real one, as the planner of growing files sees it."""

import errno
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from oncelake.sources.directory.listing import ListedFile
from oncelake.sources.tail.content import FileMovedError, FileStore

ROOT = "/logs"
FIRST_TIME = 1_764_000_000_123_000_000


@dataclass(eq=False)
class Node:
    """A file without its names.

    Attributes:
        device: the number of the device that holds it.
        number: its inode on that device.
        born: when it was created, in milliseconds; 0 if this file system does not keep that.
        data: its bytes.
        text: its content: its bytes, or what they hold if it is compressed.
        lines: the numbers of the lines in its content, by the judge's count.
        modified: its modification time in nanoseconds.
        changed: when it or its names changed last, in nanoseconds.
        error: the error that opening it raises; 0 for none.
        is_read: whether a position has its inode.
        is_later: whether it has what another file had before.
        is_copy: whether a position knows it as a copy.
        is_odd: whether its last line went on after it was compressed.
        is_ended: whether it ends within a line that the log of which it is a copy has ended.
        is_cut: whether a crash cut it, and no position knows it yet.
    """

    device: int
    number: int
    born: int
    data: bytes = b""
    text: bytes = b""
    lines: tuple[int, ...] = ()
    modified: int = 0
    changed: int = 0
    error: int = 0
    is_read: bool = False
    is_later: bool = False
    is_cut: bool = False
    is_copy: bool = False
    is_odd: bool = False
    is_ended: bool = False

    @property
    def identity(self) -> tuple[int, int]:
        """Return the device and the inode."""
        return self.device, self.number


class OpenNode(io.BytesIO):
    """An open file."""

    born: int = 0


@dataclass
class MemoryDisk(FileStore):
    """Directories below `ROOT`, each on the device of its first name.

    Attributes:
        keeps_births: whether it knows when a file was created.
        names: the files by path below the root.
        links: the paths of the files to which a link leads, by its own path.
        clock: the time in nanoseconds.
        reboots: how often the devices got other numbers.
        has_twins: whether different files hold the same lines.
        missed: the path that the next listing misses; None for none.
        race: what happens between the next listing and the opening after it; None for nothing.
    """

    keeps_births: bool = True
    names: dict[str, Node] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    clock: int = FIRST_TIME
    reboots: int = 0
    has_twins: bool = False
    missed: str | None = None
    race: Callable[[], object] | None = None
    _following: dict[int, int] = field(default_factory=dict)
    free_numbers: dict[int, list[int]] = field(default_factory=dict)

    def device(self, path: str) -> int:
        """Return the number of the device that holds a path: the directory `b` is another one."""
        return self.reboots * 10 + (2 if path.startswith("b/") else 1)

    def create(self, path: str, *, reuse: bool = False) -> Node:
        """Create an empty file, also in place of another one; with `reuse`, at the inode of a deleted one."""
        if path in self.names:
            self.unlink(path)
        device = self.device(path)
        free = self.free_numbers.get(device % 10, [])
        if reuse and free and (self.keeps_births or not self.has_twins):
            number = free.pop()
        else:
            number = self._following[device % 10] = self._following.get(device % 10, 100) + 1
        born = self.clock // 1_000_000 if self.keeps_births else 0
        node = Node(device, number, born, modified=self.clock, changed=self.clock)
        self.names[path] = node
        return node

    def unlink(self, path: str) -> Node:
        """Remove a name, and the file with its last one."""
        node = self.names.pop(path)
        node.changed = self.clock
        if node not in self.names.values():
            self.free_numbers.setdefault(node.device % 10, []).append(node.number)
        return node

    def rename(self, path: str, to: str) -> None:
        """Rename a file on its device."""
        node = self.names.pop(path)
        if to in self.names:
            self.unlink(to)
        self.names[to] = node
        node.changed = self.clock

    def write(self, node: Node, data: bytes) -> None:
        """Put bytes in place of a file's bytes."""
        node.data = data
        node.modified = node.changed = self.clock

    def reboot(self) -> None:
        """Change the number of every device."""
        self.reboots += 1
        for node in {id(node): node for node in self.names.values()}.values():
            node.device = node.device % 10 + self.reboots * 10

    def listing(self, path: str) -> Iterator[ListedFile]:
        """Yield every file."""
        del path
        missed, self.missed = self.missed, None
        linked = [(name, self.names[to]) for name, to in self.links.items() if to in self.names]
        for name, node in (*self.names.items(), *linked):
            if name != missed:
                hidden = name.startswith((".", "_")) or "/." in name or "/_" in name
                yield ListedFile(
                    f"{ROOT}/{name}",
                    len(node.data),
                    node.modified // 1_000_000,
                    hidden,
                    None,
                    node.identity,
                    node.changed,
                )

    def open(self, file: ListedFile) -> OpenNode:
        """Open a listed file."""
        race, self.race = self.race, None
        if race is not None:
            race()
        node = self.at(file.path)
        if node is None or node.identity != file.identity:
            raise FileMovedError(f"another file is at {file.path}")
        if node.error:
            raise OSError(node.error, os.strerror(node.error))
        opened = OpenNode(node.data)
        opened.born = node.born
        return opened

    def at(self, path: str) -> Node | None:
        """Return the file at a path, also behind a link."""
        return self.names.get(self.resolve(path).removeprefix(f"{ROOT}/"))

    def resolve(self, path: str) -> str:
        """Return a path without links."""
        name = path.removeprefix(f"{ROOT}/")
        return f"{ROOT}/{self.links.get(name, name)}" if name else ROOT

    def born(self, opened: OpenNode) -> int:  # type: ignore[override]
        """Return when an open file was created."""
        return opened.born

    def now(self) -> float:
        """Return the time in seconds since 1970."""
        return self.clock / 1e9


ERRORS = (errno.EMFILE, errno.EACCES, errno.ESTALE, errno.EIO)
