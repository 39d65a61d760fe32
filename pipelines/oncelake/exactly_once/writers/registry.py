"""The engines that are tried before Spark's Delta writer, the one module that names them."""

from collections.abc import Callable, Mapping, Sequence

from oncelake.exactly_once.files import TableFiles
from oncelake.exactly_once.writers import Engine


def engines_before_spark(
    path: str,
    files: TableFiles,
    *,
    options: Mapping[str, str] | None = None,
    windows: str | None = None,
    needed: Callable[[], int | None] = lambda: None,
) -> Sequence[Engine]:
    """Return the engines for a table that this process may commit to, in the order in which they are tried.

    Args:
        path: the table's directory.
        files: the access to it.
        options: how delta-rs reaches it; None for one on a local disk.
        windows: the column of a gold table's windows; None for a table that is only appended to.
        needed: returns the oldest version that a stage still reads from the table; None if there is none.
    """
    from oncelake.exactly_once.writers.local import LocalTable  # noqa: PLC0415 - needs delta-rs, which is optional

    return (LocalTable(path, windows, needed, files, options),)
