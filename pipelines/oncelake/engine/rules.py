"""Record the rules behind each fingerprint, because a commit records only the fingerprint.

A file `<lake.root>/_rules/<fingerprint>.json` is written before the first batch that uses the rules.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from oncelake.bronze.mask_versions import MaskVersions
from oncelake.common.lake import Lake
from oncelake.common.models import fingerprint_of
from oncelake.engine.graph import Stage
from oncelake.exactly_once.files import Files, files_at, files_by

# The directory below the lake's root.
PLACE = "_rules"
# Of rows that were kept when the lines of another source were made again: the fingerprints of the rules that made them.
KEPT = "kept_rows_of"


def record_rules(lake: Lake, stages: Iterable[Stage], spark: SparkSession | None) -> None:
    """Write the rules of stages that have no file yet; call it while the lake's lock is held."""
    files = files_at(lake.root, spark)
    for stage in stages:
        path = _path(lake, stage.rules)
        if stage.made_by and files.read(path) is None:
            rules = {"stage": stage.name, "rules": declared_rules(stage)}
            files.write(path, json.dumps(rules, indent=1, ensure_ascii=False))


def record_kept_rules(lake: Lake, stage: Stage, fingerprints: Sequence[str], spark: SparkSession | None) -> str:
    """Return the fingerprint of rows that several rules made; write a file that names the rules, newest first."""
    if len(fingerprints) == 1:
        return fingerprints[0]
    text = json.dumps({"stage": stage.name, "rules": [{KEPT: [*fingerprints]}]}, indent=1)
    fingerprint = fingerprint_of(text)
    files_at(lake.root, spark).write(_path(lake, fingerprint), text)
    return fingerprint


def declared_rules(stage: Stage) -> list[Mapping[str, Any]]:
    """Return the rules of a stage, without defaults, as the lake keeps them."""
    return [json.loads(rule.model_dump_json(exclude_defaults=True, by_alias=True)) for rule in stage.made_by]


def read_rules(lake: Lake, spark: SparkSession | None, fingerprint: str) -> Mapping[str, Any] | None:
    """Return the stage and the rules, without defaults, that have a fingerprint; None if no file has it."""
    return _rules(files_at(lake.root, spark), lake, fingerprint)


def newest_rules(lake: Lake, spark: SparkSession | None, fingerprint: str) -> Sequence[Mapping[str, Any]] | None:
    """Return the rules that have a fingerprint; of rows that several rules made, the newest. None if no file has it."""
    known = read_rules(lake, spark, fingerprint)
    while known is not None and known["rules"] and KEPT in known["rules"][0]:
        known = read_rules(lake, spark, known["rules"][0][KEPT][0])
    return known["rules"] if known is not None else None


def _rules(files: Files, lake: Lake, fingerprint: str) -> Mapping[str, Any] | None:
    text = files.read(_path(lake, fingerprint)) if fingerprint else None
    try:
        rules: Mapping[str, Any] | None = json.loads(text) if text else None
    except ValueError:
        return None
    return rules


def mask_versions(lake: Lake, session: Callable[[], SparkSession]) -> MaskVersions:
    """Return the versions of the rules that mask data, as the lake keeps them."""
    return MaskVersions(session, lambda fingerprint: _rules(files_by(lake.root, session), lake, fingerprint))


def _path(lake: Lake, fingerprint: str) -> str:
    return f"{lake.root}/{PLACE}/{fingerprint}.json"
