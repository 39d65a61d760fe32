"""What can happen to the files of a Delta log, and what the next start says: goes on with a warning, or refuses."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
from pyspark.sql import SparkSession

from oncelake.common.spark.jvm import jvm
from tests.support.spark_handles import java_session

TABLES = ("bronze/access_log", "silver/access_log", "silver/quarantine", "gold/error_log")


@dataclass(frozen=True)
class Damage:
    """One way to damage a log.

    Attributes:
        what: it, in words.
        do: does it to the directory of a log.
        tables: the tables on which it is tried.
        warned: a part of the warning with which the start goes on; empty if it says nothing.
        refused: a part of the error, if the start is refused.
        commands: the commands that then lead on, in their order, with `…` for the stage of the table.
        prepared: done to the log before, with a session.
    """

    what: str
    do: Callable[[Path], None]
    tables: tuple[str, ...] = TABLES
    warned: str = ""
    refused: str = ""
    commands: tuple[str, ...] = ()
    prepared: Callable[[Path, SparkSession], None] | None = None


def commits(log: Path) -> list[Path]:
    """Return the commits of a log, oldest first."""
    return sorted(log.glob("*.json"))


def checkpoints(log: Path) -> list[Path]:
    """Return the files of the checkpoints of a log, oldest first."""
    return sorted(path for path in log.glob("*.checkpoint*") if ".aside-" not in path.name)


def cut(path: Path, size: int = 100) -> None:
    """Cut a file, as a full disk or a failed copy would."""
    path.write_bytes(path.read_bytes()[:size])
    forget_sum(path)


def broken(path: Path) -> None:
    """Overwrite all that is between the ends of a file."""
    data = path.read_bytes()
    path.write_bytes(data[:4] + b"\xff" * (len(data) // 2 - 4) + data[len(data) // 2 :])
    forget_sum(path)


def forget_sum(path: Path) -> None:
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def named(log: Path, text: str) -> None:
    """Write what `_last_checkpoint` says."""
    (log / "_last_checkpoint").write_text(text)
    forget_sum(log / "_last_checkpoint")


def several(path: Path) -> None:
    """Cut each."""
    for checkpoint in checkpoints(path):
        cut(checkpoint)


def without_checkpoints(log: Path) -> None:
    for each in (*checkpoints(log), log / "_last_checkpoint"):
        each.unlink()


def lied(log: Path) -> None:
    """Let the newest checksum say that there are more files."""
    newest = max(log.glob("0*.crc"))
    newest.write_text(newest.read_text().replace('"numFiles":', '"numFiles":7'))
    forget_sum(newest)


def after(first: Callable[[Path], None], do: Callable[[Path], None]) -> Callable[[Path], None]:
    """Return what does both, one after the other."""

    def both(log: Path) -> None:
        first(log)
        do(log)

    return both


def clean_up(log: Path) -> None:
    """Remove the commits and checkpoints before the newest one."""
    newest = commits(log)[-1].name[:20]
    for path in log.iterdir():
        if path.name[:20].isdigit() and path.name[:20] < newest:
            path.unlink()


def in_parts(log: Path, spark: SparkSession) -> None:
    """Write the newest checkpoint again, in several parts."""
    without_checkpoints(log)
    spark.conf.set("spark.databricks.delta.checkpoint.partSize", "1")
    try:
        point(log, spark)
    finally:
        spark.conf.unset("spark.databricks.delta.checkpoint.partSize")
    assert len(checkpoints(log)) > 1


def of_the_second_kind(log: Path, spark: SparkSession) -> None:
    """Let the table have checkpoints with sidecars, and write one."""
    properties = "'delta.checkpointPolicy' = 'v2'"
    spark.sql(f"ALTER TABLE delta.`{log.parent}` SET TBLPROPERTIES ({properties})")
    without_checkpoints(log)
    point(log, spark)
    assert list((log / "_sidecars").iterdir())


def point(log: Path, spark: SparkSession) -> None:
    """Let Spark write a checkpoint."""
    found, snapshot = opened(log, spark)
    found.checkpoint(snapshot, jvm(spark).scala.Option.empty())


def opened(log: Path, spark: SparkSession) -> tuple[Any, Any]:
    """Return Spark's view of a log, read again from its files, and its newest snapshot."""
    java, none = jvm(spark).org.apache.spark.sql.delta.DeltaLog, jvm(spark).scala.Option.empty()
    java.clearCache()
    found = java.forTable(java_session(spark), str(log.parent))
    return found, found.update(False, none, none)


def with_checkpoints(log: Path) -> None:
    """Let delta-rs write a checkpoint of the newest version."""
    deltalake.DeltaTable(str(log.parent)).create_checkpoint()


_SPARE = "cannot be read, and the commits hold the same"
_NAMES_NONE = "_last_checkpoint names no checkpoint to read"
_RECOVERS = ("recover …",)

DAMAGES = (
    Damage("the newest checkpoint is cut", lambda log: cut(checkpoints(log)[-1]), warned=_SPARE),
    Damage("the newest checkpoint is broken in the middle", lambda log: broken(checkpoints(log)[-1]), warned=_SPARE),
    Damage("all checkpoints are cut", several, warned=_SPARE),
    Damage("the newest checkpoint is empty", lambda log: cut(checkpoints(log)[-1], 0), warned=_NAMES_NONE),
    Damage("the newest checkpoint is gone", lambda log: checkpoints(log)[-1].unlink(), warned=_NAMES_NONE),
    Damage(
        "one part of the newest checkpoint is cut",
        lambda log: cut(checkpoints(log)[-1]),
        warned=_SPARE,
        prepared=in_parts,
    ),
    Damage(
        "one part of the newest checkpoint is gone",
        lambda log: checkpoints(log)[-1].unlink(),
        warned=_NAMES_NONE,
        prepared=in_parts,
    ),
    Damage(
        "the newest checkpoint, of the kind v2, is cut",
        lambda log: cut(checkpoints(log)[-1]),
        warned=_SPARE,
        prepared=of_the_second_kind,
    ),
    Damage(
        "the sidecar of the newest checkpoint is gone",
        lambda log: shutil.rmtree(log / "_sidecars"),
        warned=_SPARE,
        prepared=of_the_second_kind,
    ),
    Damage("`_last_checkpoint` names an older one", lambda log: named(log, json.dumps({"version": 2, "size": 5}))),
    Damage("`_last_checkpoint` is cut", lambda log: named(log, '{"vers'), warned=_NAMES_NONE),
    Damage(
        "`_last_checkpoint` names a version that is not there",
        lambda log: named(log, json.dumps({"version": 300, "size": 5})),
        warned=_NAMES_NONE,
    ),
    Damage("the newest checksum lies", lied),
    Damage("the newest checksum is cut", lambda log: cut(max(log.glob("0*.crc")), 50)),
    Damage("an older commit is cut, and a checkpoint holds it", lambda log: cut(commits(log)[1])),
    Damage(
        "the newest commit is gone, and a checkpoint holds it",
        lambda log: commits(log)[-1].unlink(),
        refused="json is gone",
        commands=_RECOVERS,
    ),
    *(
        Damage(what, do, refused="json cannot be read", commands=_RECOVERS)
        for what, do in (
            ("the newest commit is cut, and a checkpoint holds it", lambda log: cut(commits(log)[-1])),
            (
                "the newest commit is cut, and no checkpoint holds it",
                after(without_checkpoints, lambda log: cut(commits(log)[-1])),
            ),
            ("the newest commit is empty", after(without_checkpoints, lambda log: cut(commits(log)[-1], 0))),
            (
                "the commit before the newest one is cut, and no checkpoint holds it",
                after(without_checkpoints, lambda log: cut(commits(log)[-2])),
            ),
        )
    ),
    Damage(
        "older commits were cleaned up, and the newest checkpoint is cut",
        after(clean_up, lambda log: cut(checkpoints(log)[-1])),
        refused="checkpoint.parquet cannot be read",
        commands=("rebuild …",),
    ),
)
