"""Check the bundle against the Databricks CLI's own JSON schema."""

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from tests.support.bundle.files import Config, read_all
from tests.support.places import ROOT

# removed from the environment: oncelake refuses a variable there that is none of its settings
_NAMED = os.environ.pop("ONCELAKE_BUNDLE_SCHEMA", None)
PLACE = Path(_NAMED) if _NAMED else ROOT.parent / "shared" / "databricks-bundle-schema.json"


def problems_of(root: Path, resolved: Config) -> Iterator[str]:
    """Yield the violations of the schema: in each file as it is written, then in the resolved bundle."""
    for path, file in read_all(root).items():
        overrides = {"targets": file.pop("targets", {})}
        found = [*_problems(file), *_problems(overrides, partial=True)]
        yield from (f"{path.name}: {problem}" for problem in found)
    yield from _problems(resolved)


def _problems(config: Config, *, partial: bool = False) -> Iterator[str]:
    schema = _schema(partial=partial)
    # The schema accepts any key at the root; the CLI reads only these.
    for key in config.keys() - schema["properties"].keys():
        yield f"{key}: there is no such key"
    for error in Draft202012Validator(schema).iter_errors(config):
        deepest = _deepest(error)
        yield f"{deepest.json_path.removeprefix('$.')}: {deepest.message[:200]}"


def _deepest(error: ValidationError) -> ValidationError:
    """Return the error of the intended alternative: most say `a mapping of this kind, or ${var.…}`."""
    while error.context:
        error = max(error.context, key=lambda each: (len(each.absolute_path), each.schema_path[0] == 0))
    return error


@cache
def _schema(*, partial: bool) -> Any:
    """Return the schema; for a target's overrides without required keys, as the resource's own file has them."""
    return _in_python(json.loads(PLACE.read_text(encoding="utf-8")), leave_out={"required"} if partial else set())


def _in_python(value: Any, leave_out: set[str]) -> Any:
    r"""Convert the patterns for Python's `re`, which has no \p{L} (a letter) and no \p{N} (a number)."""
    if isinstance(value, list):
        return [_in_python(inner, leave_out) for inner in value]
    if not isinstance(value, dict):
        return value
    out = {key: _in_python(inner, leave_out) for key, inner in value.items() if key not in leave_out}
    if isinstance(out.get("pattern"), str):
        out["pattern"] = out["pattern"].replace(r"[\p{L}\p{N}]", r"[^\W_]").replace(r"\p{L}", r"[^\W\d_]")
    return out
