"""Operations on growing logs: programs write to them, and tools rotate, compress, move, restore and delete them."""

import bz2
import gzip
import os
import re
import shutil
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.chaos.directory import unpacked
from tests.chaos.operations import Place
from tests.chaos.steps import Step

# The values of `source.rotation`, by the number that `rotation` is given.
ROTATIONS = (None, "rename", "copytruncate")
# Two directories whose logs may get the same lines: each of these counts.
TWINS = (b"one", b"two")
# The first line of many logs: it says nothing about which log it is.
HEADER = b"# log"
BOM = b"\xef\xbb\xbf"
# What begins a line that is not the first one of its record.
WITHIN = b"\t"
OPENERS: Mapping[bytes, Callable[[bytes], bytes]] = {b".gz": gzip.compress, b".bz2": bz2.compress}
# A file is quiet if it has not grown for two seconds; what a program wrote at once counts as written longer ago.
_QUIET = 5.0
_KINDS = (
    b"L1%09d.%d",
    b"L1%09d.%d \xff\xfe",
    b"L1%09d.%d\r",
    b"L1%09d.%d \xe2\x80\xa8 \xc2\x85",
    b"L1%09d.%d\x00",
    b"L1%09d.%d " + b"x" * 300,
)


@dataclass
class LogPlace:
    """A directory of logs, and what its operations remember of each other.

    Attributes:
        records: whether the log format puts several lines together.
        rotation: how the logs are rotated, as the settings say it.
        headers: how many headers were written.
        copied: the logs that were copied to be cut, and whether they were cut.
        crashed: the logs that lost their last bytes, and whether they have grown since.
        torn: the tags of the records that were not written at once.
        begun: the beginnings of lines that got their ends; a copy may hold them without.
        lines: all lines that were written at once.
        rests: what is still to be written of a member of a compressed file, by the file's inode.
        dated: the inodes of files whose time is not the one that their content had when it was written.
        denied: the inodes of the files that the product may not open.
    """

    place: Place
    records: bool = False
    rotation: str | None = "copytruncate"
    headers: int = 0
    copied: dict[bytes, bool] = field(default_factory=dict)
    crashed: dict[bytes, bool] = field(default_factory=dict)
    torn: set[bytes] = field(default_factory=set)
    begun: set[bytes] = field(default_factory=set)
    lines: set[bytes] = field(default_factory=set)
    rests: dict[int, bytes] = field(default_factory=dict)
    dated: set[int] = field(default_factory=set)
    denied: set[int] = field(default_factory=set)

    def log(self, step: Step, number: int = 0) -> bytes:
        """Return the path of a step's log, or of a rotated file of it."""
        path = self.place.at(step)
        return path if not number else next(iter(_rotated(path, number)), path + b".%d" % number)

    def written(self, path: bytes) -> None:
        """Date a file back, as one whose last record is whole by now."""
        if self.records:
            os.utime(path, (time.time() - _QUIET, time.time() - _QUIET))

    def put(self, path: bytes, content: bytes, like: bytes | None = None) -> None:
        """Write a file at a new inode, in one atomic move, with the time of another one."""
        partial = self.place.aside + b"/partial"
        with open(partial, "wb") as opened:
            opened.write(content)
        is_dated = like is None or os.stat(like).st_ino in self.dated
        if like is not None:
            os.utime(partial, ns=(os.stat(like).st_atime_ns, os.stat(like).st_mtime_ns))
        self.created(partial, is_dated=is_dated)
        os.rename(partial, path)

    def created(self, path: bytes, *, is_dated: bool = False) -> None:
        """Record that a file is new: its inode may be that of a deleted one."""
        inode = os.stat(path).st_ino
        self.denied.discard(inode)
        self.rests.pop(inode, None)
        (self.dated.add if is_dated else self.dated.discard)(inode)


def stream(name: bytes) -> bytes:
    """Return the directory of a twin; empty for any other file, whose lines are in no other one but its copies."""
    first = name.split(b"/", 1)[0]
    return first if first in TWINS else b""


def refuses(logs: LogPlace, step: Step) -> bool:
    """Return whether a step on files, as on any directory, makes a state of which nobody can tell what is there.

    Who moves a log between its copy and its cut makes two logs of one, and who hides a compressed file alone makes two
    files of one, when the other is rotated. A twin that is gone is continued by the other twin.
    """
    name = step.names[0] if step.names else b""
    if step.verb in ("hide", "away", "delete") and stream(name):
        return True
    number = re.fullmatch(rb"(.*\.\d+)(\.gz|\.bz2|)", name)
    is_pair = number is not None and sum(os.path.exists(logs.place.root + b"/" + number[1] + e) for e in _ENDS) > 1
    return name in logs.copied or name in logs.crashed or (is_pair and step.verb in ("hide", "away"))


_ENDS = (b"", *OPENERS)


def _rotated(path: bytes, number: int) -> list[bytes]:
    """Return the rotated file of a log with a number, compressed or not."""
    return [each for end in _ENDS if os.path.exists(each := path + b".%d" % number + end)]


def _compressed(logs: LogPlace, step: Step) -> tuple[bytes, bytes]:
    """Return the path of a compressed rotated file, and its content, if that is complete."""
    path = logs.place.at(step) + b".%d" % step.numbers[0]
    path = next((path + end for end in OPENERS if os.path.exists(path + end)), path)
    with open(path, "rb") as opened:
        held = opened.read()
    content = unpacked(path, held)
    _unless(content is None or content is held)
    assert content is not None
    return path, content


def unpacked_members(path: bytes) -> bytes:
    """Return the content of the members of a compressed file that are complete."""
    rest, content = _content(path), b""
    while rest:
        unpacker = zlib.decompressobj(31) if path.endswith(b".gz") else bz2.BZ2Decompressor()
        try:
            member = unpacker.decompress(rest)
        except (OSError, zlib.error):
            break
        if not unpacker.eof:
            break
        rest, content = unpacker.unused_data, content + member
    return content


def _content(path: bytes) -> bytes:
    with open(path, "rb") as opened:
        return opened.read()


def _unless(there_is_nothing_to_do: bool) -> None:
    if there_is_nothing_to_do:
        raise FileNotFoundError


def _made(logs: LogPlace, tag: int, count: int) -> bytes:
    """Return lines that no other tag has; with records, two of three lines go with the one before."""
    lines = [_KINDS[(tag + at) % len(_KINDS)] % (tag, at) for at in range(count)]
    if logs.records:
        lines = [WITHIN * bool(at % 3) + line for at, line in enumerate(lines)]
    logs.lines.update(lines)
    return b"".join(line + b"\n" for line in lines)


def _start(logs: LogPlace, tag: int) -> bytes:
    """Return what a new log begins with: nothing, a header, or a byte order mark."""
    if tag % 3 == 0:
        logs.headers += 1
        return HEADER + b"\n"
    return BOM if tag % 7 == 0 else b""


def _add(logs: LogPlace, step: Step, text: bytes, *, name: bytes | None = None) -> None:
    """Append to a log, which is created if it is not there; first write the end of a line that lacks it.

    Args:
        logs: the logs.
        step: the step; `rewrite` puts another inode in the place of the log.
        text: what is appended.
        name: the log's name; None for the step's first one.
    """
    name = name or step.names[0]
    _unless(not os.path.isdir(logs.place.root))
    _unless((logs.copied.get(name) is False) != (step.verb == "append-copied"))
    path = logs.place.root + b"/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    held = _content(path) if os.path.exists(path) else b""
    last = held.rpartition(b"\n")[2]
    if last:
        logs.begun.add(last.removeprefix(BOM))
        logs.lines.add(last.removeprefix(BOM) + b" end")
    added = (b" end\n" if last else b"") + (b"" if held else _start(logs, step.numbers[0])) + text
    if step.verb == "rewrite":
        logs.put(path, held + added)
    else:
        is_new = not os.path.exists(path)
        with open(path, "ab") as opened:
            opened.write(added)
        if is_new:
            logs.created(path)
    logs.written(path)
    if name in logs.crashed:
        logs.crashed[name] = True


def _append(logs: LogPlace, step: Step) -> None:
    _add(logs, step, _made(logs, *step.numbers[:2]))


def _append_twins(logs: LogPlace, step: Step) -> None:
    """Append the same lines to two logs."""
    for name in step.names:
        _add(logs, step, _made(logs, *step.numbers[:2]), name=name)


def _rewrite(logs: LogPlace, step: Step) -> None:
    """Replace a log by another file with its content and more, as rsync and editors do."""
    os.stat(logs.log(step))
    _append(logs, step)


def _half(logs: LogPlace, step: Step) -> None:
    """Append the beginning of a line; the next append writes its end."""
    _add(logs, step, b"L1%09d.begun" % step.numbers[0])


def _half_record(logs: LogPlace, step: Step) -> None:
    """Append the first line of a record; the rest of it follows by `rest-of-record`."""
    _add(logs, step, b"L1%09d.first\n" % step.numbers[0])


def _rest_of_record(logs: LogPlace, step: Step) -> None:
    os.stat(logs.log(step))
    _unless(b"L1%09d" % step.numbers[0] in logs.torn)
    logs.torn.add(b"L1%09d" % step.numbers[0])
    _add(logs, step, WITHIN + b"L1%09d.rest\n" % step.numbers[0])


def _crash(logs: LogPlace, step: Step) -> None:
    """Cut the last bytes of a log, less than half of them, as if they had not been on the disk when the power failed.

    With records, a row may then begin within one.
    """
    path = logs.log(step)
    _unless_whole(logs, step)
    _unless(logs.records or bool(stream(step.names[0])))
    held = _content(path)
    kept = held[: len(held) * step.numbers[0] // 100]
    last = kept.rpartition(b"\n")[2].removeprefix(BOM)
    is_a_line_elsewhere = last in logs.lines or b"." not in last  # with the end that it gets
    kept = kept[: len(kept) - len(last)] if is_a_line_elsewhere else kept
    _unless(len(kept) * 2 <= len(held) or len(kept) == len(held))
    os.truncate(path, len(kept))
    logs.crashed[step.names[0]] = False


def _unless_whole(logs: LogPlace, step: Step) -> None:
    """Raise FileNotFoundError if a log is being rotated by a copy, or lost its last bytes."""
    _unless(step.names[0] in logs.copied or step.names[0] in logs.crashed)


def _unless_dated(logs: LogPlace, path: bytes) -> None:
    """Raise FileNotFoundError if only a file's path tells what it is, when it gets another inode: it may be rotated."""
    _unless(bool(path) and os.stat(path).st_ino in logs.dated)


def _shift(path: bytes) -> None:
    """Rename each rotated file of a log to the next number."""
    name = re.compile(re.escape(os.path.basename(path)) + rb"\.(\d+)(\.gz|\.bz2|)")
    found = [match for each in os.listdir(os.path.dirname(path)) if (match := name.fullmatch(each))]
    for match in sorted(found, key=lambda match: int(match[1]), reverse=True):
        os.rename(os.path.dirname(path) + b"/" + match[0], path + b".%d%b" % (int(match[1]) + 1, match[2]))


def _rotate(logs: LogPlace, step: Step) -> None:
    path = logs.log(step)
    _unless_whole(logs, step)
    os.stat(path)
    _shift(path)
    os.rename(path, path + b".1")


def _copy(logs: LogPlace, step: Step) -> None:
    """Copy a log, the first half of a rotation that cuts it."""
    path = logs.log(step)
    _unless_whole(logs, step)
    os.stat(path)
    _shift(path)
    shutil.copyfile(path, path + b".1")
    logs.created(path + b".1")
    logs.written(path + b".1")
    logs.copied[step.names[0]] = False


def _cut(logs: LogPlace, step: Step) -> None:
    """Cut a copied log, the second half of such a rotation."""
    _unless(logs.copied.get(step.names[0]) is not False)
    os.truncate(logs.log(step), 0)
    logs.copied[step.names[0]] = True


def _pack(logs: LogPlace, step: Step) -> None:
    """Compress a rotated file, with its time as gzip does or without: it is deleted when the other one is complete."""
    path = _plain(logs, step)
    target, packed = _packed(step, path)
    logs.put(target, packed, path if step.numbers[1] > 1 else None)
    os.remove(path)


def _pack_keep(logs: LogPlace, step: Step) -> None:
    """Compress a rotated file and keep it, as `gzip -k` does; the compressed one has its time."""
    path = _plain(logs, step)
    target, packed = _packed(step, path)
    logs.put(target, packed, path)


def _pack_half(logs: LogPlace, step: Step) -> None:
    """Write the first half of a compressed file beside the one that it is to replace."""
    target, packed = _packed(step, _plain(logs, step))
    _unless(os.path.exists(target))
    with open(target, "wb") as opened:
        opened.write(packed[: len(packed) // 2])
    logs.created(target, is_dated=True)


def _repack(logs: LogPlace, step: Step) -> None:
    """Compress a compressed file at another level, which leaves its time."""
    path, content = _compressed(logs, step)
    level = step.numbers[1] + 1
    packed = gzip.compress(content, level) if path.endswith(b".gz") else bz2.compress(content, level)
    logs.put(path, packed, path)


def _unpack(logs: LogPlace, step: Step) -> None:
    """Unpack a compressed file, as `gunzip` does: it is deleted, and the other one has its time."""
    path, content = _compressed(logs, step)
    plain = os.path.splitext(path)[0]
    _unless_dated(logs, path)
    _unless(os.path.exists(plain) and _content(plain) != content[: os.path.getsize(plain)])
    logs.put(plain, content, path)
    os.remove(path)


def _unpack_half(logs: LogPlace, step: Step) -> None:
    """Write the first half of the content of a compressed file beside it."""
    path, content = _compressed(logs, step)
    plain = os.path.splitext(path)[0]
    _unless(os.path.exists(plain) or not content.endswith(b"\n"))
    logs.put(plain, content[: len(content) // 2])


def _append_member(logs: LogPlace, step: Step) -> None:
    """Append lines to a compressed file, as `gzip >> app.log.1.gz` does."""
    _append_to_packed(logs, step, parts=1)


def _begin_member(logs: LogPlace, step: Step) -> None:
    """Append half of what `append-member` does; `end-member` writes the rest."""
    _append_to_packed(logs, step, parts=2)


def _append_to_packed(logs: LogPlace, step: Step, parts: int) -> None:
    path, content = _compressed(logs, step)
    _unless(step.names[0] in logs.copied)
    _unless(not content.endswith(b"\n"))  # nobody can know whether the last line goes on
    _unless(os.path.exists(os.path.splitext(path)[0]))  # it would be a file that is compressed and goes on
    packed = OPENERS[os.path.splitext(path)[1]](_made(logs, *step.numbers[1:3]))
    now = len(packed) // parts
    with open(path, "ab") as opened:
        opened.write(packed[:now])
    logs.dated.add(os.stat(path).st_ino)
    logs.rests[os.stat(path).st_ino] = packed[now:]


def _end_member(logs: LogPlace, step: Step) -> None:
    path = next((form for form in reversed(_rotated(logs.place.at(step), step.numbers[0]))), b"")
    rest = logs.rests.pop(os.stat(path).st_ino, b"")
    _unless(not rest)
    with open(path, "ab") as opened:
        opened.write(rest)


def _plain(logs: LogPlace, step: Step) -> bytes:
    path = logs.place.at(step) + b".%d" % step.numbers[0]
    os.stat(path)
    return path


def _packed(step: Step, path: bytes) -> tuple[bytes, bytes]:
    """Return the path and the bytes of the compressed file of a rotated one, which may be there in half."""
    end = [*OPENERS][step.numbers[1] % 2]
    for other in OPENERS:
        if os.path.exists(path + other):
            _unless(other != end or unpacked(path + other, _content(path + other)) is not None)
    return path + end, OPENERS[end](_content(path))


def _restore(logs: LogPlace, step: Step) -> None:
    """Put a copy with the same time in the place of a file, as a restored backup is."""
    path = logs.log(step, step.numbers[0])
    _unless_whole(logs, step)
    _unless_dated(logs, path if step.numbers[0] else b"")
    logs.put(path, _content(path), path)


def _olddir(logs: LogPlace, step: Step) -> None:
    """Move a rotated file to another directory, or back: on the same disk, or as a copy with the same time."""
    inner, outer = os.path.split(logs.place.at(step))
    source, target = inner + b"/old/" + outer, inner + b"/" + outer
    if step.verb == "olddir":
        source, target = target, source
    forms = _rotated(source, step.numbers[0])
    _unless(not forms or bool(_rotated(target, step.numbers[0])))
    _unless(step.numbers[0] == 1 and step.names[0] in logs.copied)
    as_copies = bool(step.numbers[1]) and not any(os.stat(form).st_ino in logs.dated for form in forms)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    for form in forms:
        moved = os.path.dirname(target) + b"/" + os.path.basename(form)
        if as_copies:
            logs.put(moved, _content(form), form)
            os.remove(form)
        else:
            os.rename(form, moved)


def _drop(logs: LogPlace, step: Step) -> None:
    """Delete a rotated file, whether it was read or not."""
    found = _rotated(logs.place.at(step), step.numbers[0])
    _unless(not found or bool(stream(step.names[0])))
    _unless(step.names[0] in logs.copied and step.numbers[0] == 1)
    for path in found:
        os.remove(path)


def _deny(logs: LogPlace, step: Step) -> None:
    """Let the product no longer open a file, as if it had lost the permission."""
    logs.denied.add(os.stat(logs.log(step, step.numbers[0])).st_ino)


def _permit(logs: LogPlace, step: Step) -> None:
    inode = os.stat(logs.log(step, step.numbers[0])).st_ino
    _unless(inode not in logs.denied)
    logs.denied.remove(inode)


def _rotation(logs: LogPlace, step: Step) -> None:
    """Set how the logs are rotated."""
    logs.rotation = ROTATIONS[step.numbers[0]]


VERBS: dict[str, Callable[[LogPlace, Step], None]] = {
    "append": _append,
    "append-copied": _append,
    "append-twins": _append_twins,
    "rewrite": _rewrite,
    "half": _half,
    "half-record": _half_record,
    "rest-of-record": _rest_of_record,
    "crash": _crash,
    "rotate": _rotate,
    "copy": _copy,
    "cut": _cut,
    "pack": _pack,
    "pack-keep": _pack_keep,
    "pack-half": _pack_half,
    "repack": _repack,
    "unpack": _unpack,
    "unpack-half": _unpack_half,
    "append-member": _append_member,
    "begin-member": _begin_member,
    "end-member": _end_member,
    "restore": _restore,
    "olddir": _olddir,
    "olddir-back": _olddir,
    "drop": _drop,
    "deny": _deny,
    "permit": _permit,
    "rotation": _rotation,
}
