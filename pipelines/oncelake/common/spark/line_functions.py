"""Functions of a line that Spark lacks: a regular expression with a bound on its steps, and JSON with all digits.

They are oncelake's own Java classes. In a session without these, Spark's functions take their place: a pattern then has
no bound, and numbers of JSON have the form that Spark gives them.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as F

from oncelake.common.spark.compiled import is_on_executors
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.runtime import applied, has_class

_PATTERN, _JSON = "BoundedPattern", "JsonLine"


def contains_match(text: Column, regex: str) -> Column:
    """Return True if a regular expression is found in a text; null if that takes too many steps, or without a text."""
    java = _own(_PATTERN)
    return text.rlike(regex) if java is None else applied(java.found(regex), text.cast("string"))


def first_line_contains_match(record: Column, regex: str, searched: int, *, tail: bool) -> Column | None:
    """Return True if a regular expression is found in a record's first line; None if there is no such function.

    Null if that takes too many steps.

    Args:
        record: the record's text.
        regex: the regular expression.
        searched: how many characters of the line are searched.
        tail: whether that many at the line's end are searched too.
    """
    java = _own(_PATTERN)
    return None if java is None else applied(java.foundInLine(regex, searched, tail), record)


def replaced(text: Column, regex: str) -> Column:
    """Return a text without the matches of a regular expression; null if that takes too many steps."""
    java = _own(_PATTERN)
    return F.regexp_replace(text, F.lit(regex), F.lit("")) if java is None else applied(java.replaced(regex, ""), text)


def groups(text: Column, regex: str, numbers: Sequence[int]) -> Column | None:
    """Return an empty text and the texts of groups, an array; None if the session has no such function.

    Null if the regular expression is not found, an empty array if that takes too many steps. A group that did not
    match is empty.
    """
    java = _own(_PATTERN)
    return None if java is None else applied(java.groups(regex, ",".join(map(str, numbers))), text)


def json_object(line: Column, paths: Sequence[Sequence[str]]) -> Column | None:
    """Return the texts of a JSON object; None if the session has no such function.

    A struct of `object`, a map of the texts of its keys, and `paths`, an array of the texts at paths; null if the line
    is not one JSON object.

    Args:
        line: the line.
        paths: each is a list of steps, `.key` or `[number`.
    """
    java = _own(_JSON)
    return None if java is None else applied(java.of("\x1e".join("\x1f".join(path) for path in paths)), line)


def json_events(line: Column, key: str) -> Column | None:
    """Return the events of a JSON line, a list of objects; None if the session has no such function.

    A struct of `outer`, a map of the texts of the other keys, `events`, an array of texts, and `fault`, what stands
    there instead of such a list; null if the line is not JSON, or an object or list only where the other one must be.

    Args:
        line: the line.
        key: where the list is; empty if the line is the list.
    """
    java = _own(_JSON)
    return None if java is None else applied(java.events(key), line)


def _own(name: str) -> Any | None:
    """Return py4j's view of a class of ours, if the running Spark has it on every executor."""
    context = SparkContext._active_spark_context
    return _class(context, name) if context is not None else None


@lru_cache(maxsize=4)  # asking the JVM takes a millisecond
def _class(context: SparkContext, name: str) -> Any | None:
    return (
        getattr(jvm(context).oncelake, name)
        if has_class(context, f"oncelake.{name}") and is_on_executors(context)
        else None
    )
