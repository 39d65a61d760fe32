"""Propose a suite for the rows of a sample, as `quality.suggest` does for the rows of a lake, without Spark."""

import json
from typing import Any

from oncelake.common.lake import SILVER
from oncelake.engine.conf_file import shipped_conf
from oncelake.lab.project.kinds import LogKind
from oncelake.quality.split import FIELDS
from oncelake.quality.suggest import MOST_FIELDS, suggest_silver


def suite_of(kind: LogKind | None) -> dict[str, Any]:
    """Return a suite for silver: the shipped one, and what holds for the fields of a sample.

    Levels and messages are left out: a sample rarely has all of them.
    """
    shipped: dict[str, Any] = json.loads((shipped_conf() / "expectations" / f"{SILVER}.json").read_text("utf-8"))
    if kind is None:
        return shipped
    rows = kind.rows()
    names = sorted({name for row in rows for name in row if name.startswith(f"{FIELDS}.")})[:MOST_FIELDS]
    values = {name: [row.get(name) for row in rows] for name in names}
    rules = suggest_silver(values)
    of_fields = [rule for rule in rules if rule["kwargs"]["column"].startswith(f"{FIELDS}.")]
    return {**shipped, "expectations": [*shipped["expectations"], *of_fields]}
