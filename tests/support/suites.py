"""Expectation suites that tests write."""

import json
from pathlib import Path
from typing import Any

from oncelake.common.lake import SILVER, Table
from oncelake.quality.suite import Suite, read_suite


def written(directory: Path, *expectations: dict[str, Any], table: str = "silver.access_log") -> Path:
    path = directory / f"{table}.json"
    path.write_text(json.dumps({"name": table, "expectations": expectations}))
    return path


def read(directory: Path, *expectations: dict[str, Any], table: Table = SILVER) -> Suite:
    return read_suite(written(directory, *expectations, table=str(table)), table)
