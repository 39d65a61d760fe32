"""Versions of the software in use and a settings summary for the page, without secrets."""

import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from importlib import metadata
from typing import Any

from pyspark.sql import SparkSession

from oncelake.common.spark.java import java_version
from oncelake.common.spark.jvm import jvm
from oncelake.common.version import __version__
from oncelake.engine.chain import Chain
from oncelake.exactly_once.commit import VERSION

_CREDENTIALS = re.compile(r"//[^/@\s]*@")


def versions(spark: SparkSession | None) -> dict[str, str]:
    """Return the versions of oncelake and the software that it runs on; of the session, or of one that would start."""
    java: Any = jvm(spark).java.lang.System if spark is not None else None
    return {
        "oncelake": f"{__version__}, commit format {VERSION}",
        "Spark": spark.version if spark is not None else _installed("pyspark"),
        "Delta Lake": _installed("delta-spark"),
        "Python": platform.python_version(),
        "Java": str(java.getProperty("java.version")) if java is not None else java_version() or "not found",
        "plotly": _installed("plotly"),
    }


def settings_summary(chain: Chain) -> dict[str, str]:
    """Return the settings that a reader of the page needs; none of them holds a secret."""
    return {key: value for key, value in _summary(chain) if value}


def masked(value: Any) -> Any:
    """Return a value with the part before the @ of every URL masked: it can hold a store's key or a password."""
    if isinstance(value, str):
        return _CREDENTIALS.sub("//…@", value)
    if isinstance(value, Mapping):
        return {key: masked(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(map(masked, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: masked(getattr(value, field.name)) for field in fields(value)})
    return value


def _summary(chain: Chain) -> Iterator[tuple[str, str]]:
    settings = chain.settings
    for kind in chain.kinds.values():
        yield kind.key, kind.words_with_place
        yield f"{kind.key}.format", kind.settings.format
        pattern = chain.silver.parsers[kind.table.name].pattern or ""
        yield f"pattern of {kind.key}" if settings.sources else "its pattern", pattern
    yield "lake.root", chain.lake.root if chain.lake.catalog is None else ""
    yield "lake.catalog", chain.lake.catalog or ""
    yield "checkpoints", chain.lake.checkpoints
    for name, declared in settings.gold.items():
        measures = ", ".join(f"{key} = {text}" for key, text in declared.measures.items())
        by = f" by {', '.join(declared.by)}" if declared.by else ""
        where = f" where {declared.where}" if declared.where else ""
        yield f"gold.{name}", f"{measures} per {declared.every}{by}{where}"
    for stage in chain.stages:
        if stage.served is not None:
            yield stage.name, f"{stage.served.place}, {stage.served.mode}"
    yield "quality.expectations", settings.quality.expectations or ""
    yield "run.trigger", f"{settings.run.trigger.total_seconds():g} s"
    yield "spark.master", settings.spark.master


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "provided by the runtime"
