"""Describe changed, deleted and ignored source files for `doctor`, which reads bronze only if a file changed."""

from collections.abc import Collection, Mapping

from oncelake.common.wording import count_of, listed, shown_path
from oncelake.sources.directory.census import Census, Fault, fault_message
from oncelake.sources.directory.listing import ListedFile

# Faults that a stage's own state reports, or that the next run resolves.
REPORTED_BY_STATE = (Fault.GONE, Fault.PLAN_CHANGED)


def changes(census: Census, recorded: Mapping[str, int], stage: str) -> list[str]:
    """Return one line each about files that changed, no longer exist, are not read, or are ignored.

    Args:
        census: the files, compared with Spark's list of them.
        recorded: the size in bytes that bronze recorded for each changed file, by path.
        stage: the stage that reads them.
    """
    lines = [_changed(file, recorded.get(file.path)) for file in census.touched]
    lines += [fault_message(fault, stage) for fault in census.faults if fault.fault not in REPORTED_BY_STATE]
    if census.gone:
        lines.append(f"{_some(census.gone)} read and later removed; bronze keeps what it read")
    if census.hidden:
        hidden = sorted(file.path for file in census.hidden)
        lines.append(f"{_some(hidden)} never read, because a file or directory name starts with _ or a dot")
    return lines


def _changed(file: ListedFile, was: int | None) -> str:
    path, now = shown_path(file.path), count_of(file.size, "byte")
    if was is None or file.size == was:
        return f"{path} was modified after it was read, and now has {now}; the change is not in bronze"
    if file.size > was:
        return f"{path} grew from {was:,} to {now} after it was read; its tail is not in bronze"
    return f"{path} shrank from {was:,} to {now} after it was read; bronze keeps what was read"


def _some(paths: Collection[str]) -> str:
    return f"{listed(map(shown_path, paths), most=1)} {'was' if len(paths) == 1 else 'were'}"
