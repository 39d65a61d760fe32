"""Parse a Java regular expression just enough to find its capturing groups.

Spark's regexp_extract takes a group by its number, but a log format gives its name. Java numbers named and unnamed
groups together, in the order of their opening parentheses. So capturing groups must be distinguished from groups that
do not capture. Source: the summary of constructs in the documentation of java.util.regex.Pattern.
"""

import re
from dataclasses import dataclass

_NAMED = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_ODD_NAME = re.compile(r"\(\?<([\w.-]+)>")
_SILENT = re.compile(r"\(\?(?:[:=!>]|<[=!])")
_FLAGS = re.compile(r"\(\?[a-zA-Z]*(?:-[a-zA-Z]+)?[:)]")


@dataclass(frozen=True)
class Groups:
    """The capturing groups of a pattern: their count, and the number of each named group."""

    count: int
    names: dict[str, int]


def groups(pattern: str) -> Groups:
    """Find the capturing groups of a Java regular expression.

    Raises:
        ValueError: the pattern is invalid; the message says what is wrong and at which character (from 0).
    """
    count, names, depth, at = 0, dict[str, int](), 0, 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at = _after_escape(pattern, at)
        elif char == "[":
            at = _after_class(pattern, at)
        elif char == "(":
            name, captures, end, opens = _opening(pattern, at)
            count += captures
            if name in names:
                raise ValueError(f"has two groups named {name} (at character {at})")
            names |= {name: count} if name else {}
            depth, at = depth + opens, end
        else:
            depth -= char == ")"
            if depth < 0:
                raise ValueError(f"has a ) that closes nothing (at character {at})")
            at += 1
    if depth:
        raise ValueError("has a ( that is never closed")
    return Groups(count, names)


def whole_line(pattern: str) -> str:
    r"""Return the pattern anchored to the whole line, with `.` matching every character.

    A lone \r, U+0085 and U+2028 end a line for Java. Here they are part of the message, hence (?s).
    """
    return rf"(?s)\A(?:{pattern})\z"


def _opening(pattern: str, at: int) -> tuple[str, bool, int, bool]:
    """Parse one `(`: return the group's name, whether it captures, where to continue, and whether a `)` closes it."""
    if named := _NAMED.match(pattern, at):
        return named[1], True, named.end(), True
    if silent := _SILENT.match(pattern, at):
        return "", False, silent.end(), True
    if flags := _FLAGS.match(pattern, at):
        if "x" in flags[0].split("-")[0]:
            raise ValueError(f"turns on comments with {flags[0]}, which log formats do not support (at character {at})")
        return "", False, flags.end(), flags[0].endswith(":")
    if pattern.startswith("(?P<", at):
        raise ValueError(f"has a group in Python's form (at character {at}); write (?<name>...), without the P")
    if odd := _ODD_NAME.match(pattern, at):
        raise ValueError(f"has the group {odd[1]} (at character {at}); names have letters and digits, a letter first")
    if pattern.startswith("(?", at):
        raise ValueError(f"has a group that Java does not know, {pattern[at : at + 12]} (at character {at})")
    return "", True, at + 1, True


def _after_escape(pattern: str, at: int) -> int:
    if at + 1 == len(pattern):
        raise ValueError("ends in a single backslash")
    if pattern[at + 1] != "Q":
        return at + 2
    end = pattern.find("\\E", at + 2)
    if end < 0:
        raise ValueError(f"has a \\Q without its \\E (at character {at})")
    return end + 2


def _after_class(pattern: str, start: int) -> int:
    """Return the position after a character class; classes nest, and a ] at the start is a plain character."""
    empty, at = [True], start + 1
    while at < len(pattern):
        char = pattern[at]
        if char == "^" and pattern[at - 1] == "[":
            at += 1
            continue
        if char == "[":
            empty.append(True)
        elif char == "]" and not empty[-1]:
            empty.pop()
            if not empty:
                return at + 1
        if empty and char != "[":
            empty[-1] = False
        at = _after_escape(pattern, at) if char == "\\" else at + 1
    raise ValueError(f"has a [ that is never closed (at character {start})")
