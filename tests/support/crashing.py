"""Provide a file system for Spark that crashes at a chosen write: this replaces a kill of a process.

`CrashingFileSystem.java` is oncelake's own file system with one addition: before or after a chosen file gets its
name, it fails, and it refuses all later writes until it is revived. It is compiled once and put on the class path of
the tests' Spark.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oncelake.common.spark import compiled, direct_file_system
from oncelake.common.spark.direct_file_system import LOG_STORE
from oncelake.common.spark.jars import cache_home
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.launch import java_output_to
from oncelake.common.spark.session import build
from oncelake.common.spark.settings import SparkSettings
from oncelake.exactly_once.files import LocalFiles
from oncelake.exactly_once.writers import local as local_write
from oncelake.exactly_once.writers.local import Snapshot

_SOURCE = Path(__file__).with_name("CrashingFileSystem.java")


def conf() -> Mapping[str, str]:
    """Return the settings of a Spark session with this file system."""
    replaced = {key: name.replace("Direct", "Crashing") for key, name in direct_file_system.CONF.items()}
    return {compiled.CLASS_PATH: os.pathsep.join((compiled.class_path(), str(_jar()))), **replaced}


@contextmanager
def session(said: Path) -> Iterator[SparkSession]:
    """Start oncelake's own Spark with this file system, and let what this process writes itself crash as well.

    Args:
        said: the file that gets what Java prints at the start.
    """
    settings = SparkSettings(master="local[2]", driver_memory="4g", conf=conf())
    with java_output_to(said):
        spark = build(settings, app="oncelake-tests")
    # the program accepts this log store as its own: it differs only by the crash
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(direct_file_system, "CONF", {**direct_file_system.CONF, LOG_STORE: settings.conf[LOG_STORE]})
        with local_writes(spark):
            yield spark
    spark.stop()


@contextmanager
def crashed(spark: SparkSession, path: str, *, before: bool) -> Iterator[None]:
    """Let this process's Spark crash once, at a file, and revive it afterwards.

    Args:
        spark: the tests' session.
        path: the end of the file's path; `*` is any name.
        before: whether it crashes before the file exists, or right after.

    Raises:
        AssertionError: no such file was written, so nothing crashed.
    """
    files = _files(spark)
    files.crashAt(f".*/{re.escape(path).replace(re.escape('*'), '[^/]*')}", before)
    try:
        yield
    finally:
        happened = files.revive()
        jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
    assert happened, f"{path} was not written"


@contextmanager
def local_writes(spark: SparkSession) -> Iterator[None]:
    """Let the commits of batches and new tables by delta-rs, in this process, crash where Spark's own would."""
    files = _files(spark)

    def crashing(commit: Callable[..., None]) -> Callable[..., None]:
        def committed(snapshot: Snapshot, *given: Any) -> None:
            name = f"{snapshot.directory}/_delta_log/{snapshot.version + 1:020}.json"
            files.naming(name)
            commit(snapshot, *given)
            files.wasNamed(name)

        return committed

    def create(path: str, *given: Any) -> bool:
        name = f"{path}/_delta_log/{0:020}.json"
        files.naming(name)
        is_there = created(path, *given)
        files.wasNamed(name)
        return is_there

    created = local_write.create
    with pytest.MonkeyPatch.context() as patch:
        for method in ("append_files", "merge"):
            patch.setattr(Snapshot, method, crashing(getattr(Snapshot, method)))
        patch.setattr(local_write, "create", create)
        yield


def _files(spark: SparkSession) -> Any:
    return jvm(spark).oncelake.CrashingFileSystem


def _jar() -> Path:
    known = f"{compiled.jar().name} {_SOURCE.read_text(encoding='utf-8')}"
    path = cache_home() / f"crashing-{hashlib.sha256(known.encode()).hexdigest()[:16]}.jar"
    if not path.exists():
        compiled.compile_java([_SOURCE], path, compiled.class_path())
    return path


@contextmanager
def died(step: str, *, before: bool) -> Iterator[None]:
    """Let this process die once, before or after it writes, moves or removes a file or directory itself."""
    happened: list[str] = []

    def dying(call: Callable[..., None]) -> Callable[..., None]:
        def called(files: LocalFiles, *paths: str) -> None:
            hit = not happened and any(re.search(step, path) for path in paths if path.startswith("/"))
            if not hit or not before:
                call(files, *paths)
            if hit:
                happened.append(step)
                raise KeyboardInterrupt

        return called

    with pytest.MonkeyPatch.context() as patch:
        for name in ("write", "move", "remove"):
            patch.setattr(LocalFiles, name, dying(getattr(LocalFiles, name)))
        with pytest.raises(KeyboardInterrupt):
            yield
    assert happened
