"""Check the analyzed plan of an expression that someone declared, before any stream starts."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from pyspark.logger import PySparkLogger

Impurity = Literal["random", "clock", "raises"]

_NODES: dict[str, Impurity] = {
    "AesEncrypt": "random",  # a random initialization vector
    "SparkVersion": "clock",
    "RaiseError": "raises",
}
# Spark replaces these words by the current date or time: in a cast when it runs, in a typed literal when it parses.
TODAY = r"\s*(?:now|today|tomorrow|yesterday)\b"
_CLOCK_WORD = re.compile(TODAY, re.IGNORECASE)


def impurity(node: Any) -> Impurity | None:
    """Return what a node depends on besides its row, or that it always raises an error; None if nothing.

    Catalyst calls all of these nodes deterministic.

    Args:
        node: the node, without its children.
    """
    kind = node.getClass().getSimpleName()
    if kind == "Cast" and node.dataType().typeName().startswith(("date", "timestamp")):
        word = node.child()
        if word.foldable() and _CLOCK_WORD.match(str(word.eval(None))):
            return "clock"
    return _NODES.get(kind)


@contextmanager
def without_log() -> Iterator[None]:
    """Keep PySpark from logging a failed analysis as JSON before the one-line error."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before
