"""The engines that are tried before Spark's Delta writer, the one module that names them."""

from collections.abc import Callable, Sequence

from oncelake.exactly_once.writers import Access, Engine


def engines_before_spark(
    path: str,
    *,
    windows: str | None = None,
    needed: Callable[[], int | None] = lambda: None,
    access: Access | None = None,
) -> Sequence[Engine]:
    """Return the engines for a table that this process may commit to, in the order in which they are tried.

    Args:
        path: the table's directory.
        windows: the column of a gold table's windows; None for a table that is only appended to.
        needed: returns the oldest version that a stage still reads from the table; None if there is none.
        access: how the directory is reached; None for one on a local disk.
    """
    from oncelake.exactly_once.writers.local import LocalTable  # noqa: PLC0415 - needs delta-rs, which is optional

    return (LocalTable(path, windows, needed, access),)
