"""Propose a suite for the rows of a sample, as `quality.suggest` does for the rows of a lake, without Spark."""

import json
import re
from collections.abc import Sequence
from typing import Any

from oncelake.common.lake import SILVER
from oncelake.engine.conf_file import shipped_conf
from oncelake.lab.project.kinds import LogKind
from oncelake.quality.split import FIELDS
from oncelake.quality.suggest import MOST_FIELDS, SHAPES, Profile, suggest_profiled


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
    profiles = [_profile(name, values[name]) for name in names]
    sets = {
        profile.column: sorted({value for value in values[profile.column] if value is not None})
        for profile in profiles
        if profile.is_of_few
    }
    rules = suggest_profiled(profiles, sets)
    of_fields = [rule for rule in rules if rule["kwargs"]["column"].startswith(f"{FIELDS}.")]
    return {**shipped, "expectations": [*shipped["expectations"], *of_fields]}


def _profile(column: str, values: Sequence[str | None]) -> Profile:
    texts = [value for value in values if value is not None]
    lengths = [len(text) for text in texts]
    shapes = [
        name for name, shape in SHAPES.items() if texts and all(re.search(shape, text, re.ASCII) for text in texts)
    ]
    return Profile(
        column, len(values), len(texts), len(set(texts)), (min(lengths, default=0), max(lengths, default=0)), shapes
    )
