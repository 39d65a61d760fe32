"""Operations on a source directory, as other programs and people perform them."""

import bz2
import gzip
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.directory import look, unpacked
from tests.chaos.steps import Step

# names of hidden files, by the number that `hide` is given
_HIDDEN = (b".%b", b"_%b", b"%b._COPYING_")
_SWAP = bytes.maketrans(b"LM", b"ML")


@dataclass
class Place:
    """A source directory, and a second one to move files to and back from."""

    root: bytes
    aside: bytes

    @classmethod
    def below(cls, directory: Path) -> "Place":
        """Create both below a directory."""
        place = cls(bytes(directory / "logs"), bytes(directory / "aside"))
        for each in (place.root, place.aside):
            os.makedirs(each, exist_ok=True)
        return place

    def apply(self, step: Step) -> bool:
        """Apply a step; return whether there was anything to apply it to."""
        try:
            VERBS[step.verb](self, step)
        except OSError:  # the file does not exist, or another is in its place
            return False
        return True

    def at(self, step: Step, which: int = 0) -> bytes:
        """Return the path of a step's file."""
        return self.root + b"/" + step.names[which]

    def parked(self, step: Step) -> bytes:
        """Return the path of a step's file outside the source."""
        return self.aside + b"/" + step.names[0].replace(b"/", b"%")


def made(tag: int, count: int) -> bytes:
    """Return lines that no other tag has, of every kind that a log may hold."""
    kinds = (
        b"L1%09d.%d",
        b"L1%09d.%d \xff\xfe",
        b"L1%09d.%d\r",
        b"L1%09d.%d \xe2\x80\xa8 \xc2\x85",
        b"",
        b"L1%09d.%d\x00",
        b"L1%09d %d {}",
    )
    lines = [kind % (tag, at) if kind else kind for at in range(count) for kind in [kinds[(tag + at) % len(kinds)]]]
    start = b"\xef\xbb\xbf" if tag % 13 == 0 else b""
    return start + b"".join(line + b"\n" for line in lines)


def _content(step: Step) -> bytes:
    """Return a file's bytes, compressed if its name says so."""
    lines = made(*step.numbers[:2])
    return _packed(step.names[0], lines)


def _packed(name: bytes, lines: bytes) -> bytes:
    if name.endswith(b".gz"):
        return gzip.compress(lines, mtime=0)
    return bz2.compress(lines) if name.endswith(b".bz2") else lines


def _held(path: bytes) -> bytes:
    """Read a regular file; opening a pipe would wait for its writer."""
    _unless(not os.path.isfile(path))
    with open(path, "rb") as opened:
        return opened.read()


def _put(path: bytes, held: bytes, aside: bytes) -> None:
    """Write a whole file in one atomic move."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    partial = aside + b"/partial"
    with open(partial, "wb") as opened:
        opened.write(held)
    os.rename(partial, path)


def _create(place: Place, step: Step) -> None:
    _unless(os.path.lexists(place.at(step)))
    _put(place.at(step), _content(step), place.aside)


def _replace(place: Place, step: Step) -> None:
    os.stat(place.at(step))
    _put(place.at(step), _content(step), place.aside)


def _append(place: Place, step: Step) -> None:
    with open(place.at(step), "r+b") as opened:
        opened.seek(0, os.SEEK_END)
        opened.write(_content(step))


def _begin_line(place: Place, step: Step) -> None:
    """Append an incomplete line."""
    with open(place.at(step), "r+b") as opened:
        opened.seek(0, os.SEEK_END)
        opened.write(b"L1%09d.begun" % step.numbers[0])


def _truncate(place: Place, step: Step) -> None:
    """Cut a file to a percentage of its size."""
    os.truncate(place.at(step), os.path.getsize(place.at(step)) * step.numbers[0] // 100)


def _swap(place: Place, step: Step) -> None:
    """Write other lines of the same length, with a new time."""
    held = _held(place.at(step))
    whole = unpacked(step.names[0], held)
    other = held.translate(_SWAP) if whole is None else _packed(step.names[0], whole.translate(_SWAP))
    _unless(other == held)
    _put(place.at(step), other, place.aside)


def _swap_unseen(place: Place, step: Step) -> None:
    """Write other lines of the same length, and set the time back."""
    status = os.stat(place.at(step))
    _swap(place, step)
    os.utime(place.at(step), ns=(status.st_atime_ns, status.st_mtime_ns))


def _date(place: Place, step: Step) -> None:
    os.utime(place.at(step), (step.numbers[0], step.numbers[0]))


def _empty(place: Place, step: Step) -> None:
    _unless(os.path.lexists(place.at(step)))
    _put(place.at(step), b"", place.aside)


def _move(source: bytes, target: bytes) -> None:
    os.lstat(source)
    _unless(os.path.lexists(target))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.rename(source, target)


def _copy(place: Place, step: Step) -> None:
    """Copy a file under another name, in one atomic move."""
    _unless(os.path.lexists(place.at(step, 1)))
    _put(place.at(step, 1), _held(place.at(step)), place.aside)


def _link(place: Place, step: Step) -> None:
    os.makedirs(os.path.dirname(place.at(step)), exist_ok=True)
    os.symlink(place.at(step, 1), place.at(step))


def _loop(place: Place, step: Step) -> None:
    """Create a link inside the source to it, once: Spark lists one loop some 40 times, and two in all 2^40 ways."""
    _unless(bool(look(place.root).loops))
    os.makedirs(os.path.dirname(place.at(step)), exist_ok=True)
    os.symlink(place.root, place.at(step))


def _hide(place: Place, step: Step) -> None:
    directory, name = os.path.split(place.at(step))
    _move(place.at(step), directory + b"/" + _HIDDEN[step.numbers[0]] % name)


def _unhide(place: Place, step: Step) -> None:
    directory, name = os.path.split(place.at(step))
    hidden = [path for each in _HIDDEN if os.path.lexists(path := directory + b"/" + each % name)]
    _unless(not hidden)
    _move(hidden[0], place.at(step))


def _delete(place: Place, step: Step) -> None:
    if os.path.isdir(place.at(step)) and not os.path.islink(place.at(step)):
        shutil.rmtree(place.at(step))
    else:
        os.remove(place.at(step))


def _pipe(place: Place, step: Step) -> None:
    os.makedirs(os.path.dirname(place.at(step)), exist_ok=True)
    os.mkfifo(place.at(step))


def _allow(place: Place, step: Step) -> None:
    """Set a file's permissions; without effect for root, who can read everything."""
    _unless(os.geteuid() == 0)
    os.chmod(place.at(step), step.numbers[0])


def _root_away(place: Place, step: Step) -> None:
    del step
    _move(place.root, place.aside + b"/root")


def _root_back(place: Place, step: Step) -> None:
    del step
    with suppress(OSError):  # it no longer exists, or holds files by now
        os.rmdir(place.root)
    _move(place.aside + b"/root", place.root)


def _root_emptied(place: Place, step: Step) -> None:
    """Leave an empty directory in place of the source, as an unmounted disk does."""
    _root_away(place, step)
    os.mkdir(place.root)


def _unless(there_is_nothing_to_do: bool) -> None:
    if there_is_nothing_to_do:
        raise FileNotFoundError


VERBS: dict[str, Callable[[Place, Step], None]] = {
    "create": _create,
    "replace": _replace,
    "append": _append,
    "begin-line": _begin_line,
    "truncate": _truncate,
    "swap": _swap,
    "swap-unseen": _swap_unseen,
    "date": _date,
    "empty": _empty,
    "delete": _delete,
    "rename": lambda place, step: _move(place.at(step), place.at(step, 1)),
    "rename-over": lambda place, step: os.rename(place.at(step), place.at(step, 1)),
    "copy": _copy,
    "link": _link,
    "loop": _loop,
    "hide": _hide,
    "unhide": _unhide,
    "away": lambda place, step: _move(place.at(step), place.parked(step)),
    "back": lambda place, step: _move(place.parked(step), place.at(step)),
    "pipe": _pipe,
    "allow": _allow,
    "root-away": _root_away,
    "root-back": _root_back,
    "root-emptied": _root_emptied,
}
