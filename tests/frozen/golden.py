"""Collect what the commands print for programs and leave in a lake, without what differs from run to run."""

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.frozen.lakes import MORE, FrozenLake, answering, write
from tests.frozen.place import HERE
from tests.support.house import House

_MASKS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<hex>"),
    (re.compile(r"20(2[6-9]|[3-9]\d)-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00| UTC)?"), "<time>"),
    (re.compile(r"20\d{6}T\d{6}[.\d]*Z"), "<time>"),
)
# numbers that depend on the machine and on the time
_VARIES = re.compile(r"(seconds|_ms|bytes|_at|time|duration|freshness|per_second|age|batches|behind)$")
# messages for people: kept, except for their numbers
_TEXTS = ("said", "notes", "text", "detail", "warnings")


def play(lake: FrozenLake, house: House, spark: SparkSession) -> list[dict[str, Any]]:
    """Run the steps of an unpacked lake; return each with its exit code and its output."""
    played = []
    with ExitStack() as stack:
        for step in lake.steps:
            if step[0] == "write":
                write(house, step[1], MORE)
                continue
            if step[0] == "answer":
                stack.enter_context(answering(house))
                continue
            exit_code, said = house.told(spark, *step, "--json")
            played.append({"step": list(step), "exit": exit_code, "said": without_order(masked(values(said)))})
    return played


def without_order(said: list[Any]) -> list[Any]:
    """Keep one batch of each stage: their number and order depend on timing."""
    batches = [each for each in said if isinstance(each, dict) and each.get("event") == "batch"]
    rest = [each for each in said if each not in batches]
    of = {batch["stage"]: {**shape(batch), "stage": batch["stage"]} for batch in batches}
    for each in of.values():  # only the last of the reports that arrive together has the backlog
        each.pop("backlog", None)
        each.pop("backlog_unit", None)
    return [*(of[stage] for stage in sorted(of)), *rest]


def values(said: str) -> list[Any]:
    """Parse printed output, one value a line."""
    return [json.loads(line) if line.startswith(("{", "[")) else line for line in said.splitlines()]


def masked(value: Any, key: str = "") -> Any:
    """Replace what differs from run to run."""
    if isinstance(value, Mapping):
        return {masked(name): masked(each, name) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [masked(each, key) for each in value]
    if isinstance(value, str):
        for pattern, word in _MASKS:
            value = pattern.sub(word, value)
        return re.sub(r"\b\d[\d,.]*( [kM]?B| bytes)?\b", "<n>", value) if key in _TEXTS else value
    varies = isinstance(value, int | float) and not isinstance(value, bool) and _VARIES.search(key)
    return "<number>" if varies else value


def written(house: House) -> dict[str, Any]:
    """Describe all that oncelake writes below a lake: commit metadata, tables, proofs, markers, served tables."""
    found: dict[str, Any] = {
        "files": sorted(
            {_kind(path, house.lake) for path in house.lake.rglob("*") if path.is_file() and "gx" not in path.parts}
        )
    }
    for log in sorted(house.lake.rglob("_delta_log")):
        found[_place(log.parent, house.lake)] = _table(log)
    for path in sorted(house.lake.rglob("*.json")):
        if not {"_delta_log", "gx"} & {*path.parts}:
            found[_kind(path, house.lake)] = shape(json.loads(path.read_bytes()))
    for path in house.root.glob("*.db"):
        with sqlite3.connect(path) as database:
            found[path.name] = sorted(
                row[0] for row in database.execute("SELECT sql FROM sqlite_master WHERE sql > ''")
            )
    lock = house.lake / ".oncelake.lock"
    found[lock.name] = re.sub(
        r"[0-9a-f]{32}", "<hex>", re.sub(r"process \d+ on .*", "process <pid> on <host>", lock.read_text())
    )
    return found


def counted(house: House) -> dict[str, Any]:
    """Return the contents of the tables: each line with its level or its reasons, and the counts."""
    silver, quarantine = house.rows("silver/access_log"), house.rows("silver/quarantine")
    counts = {name: house.rows(f"gold/{name}") for name in ("error_log", "log_volume")}
    return {
        "bronze": sorted(row["value"].decode() for row in house.rows("bronze/access_log")),
        "silver": sorted([str(row["log_time"]), row["level"], row["message"]] for row in silver),
        "quarantine": sorted([row["value"].decode(), *(each["rule"] for each in row["reasons"])] for row in quarantine),
        **{name: sorted([str(each) for each in row.values()] for row in rows) for name, rows in counts.items()},
    }


def shape(value: Any) -> Any:
    """Describe a value by its keys and types."""
    if isinstance(value, dict):
        return {_key(key): shape(each) for key, each in sorted(value.items())}
    if isinstance(value, list):
        return [json.loads(each) for each in sorted({json.dumps(shape(each), sort_keys=True) for each in value})]
    return type(value).__name__


def _table(log: Path) -> dict[str, Any]:
    """Describe a table by its commits: commit metadata with transactions, columns, properties."""
    notes, applications, columns, properties = set(), set(), {}, {}
    for commit in sorted(log.glob("*.json")):
        for line in commit.read_bytes().splitlines():
            entry = json.loads(line)
            metadata = json.loads(entry.get("commitInfo", {}).get("userMetadata") or "{}")
            if metadata:
                notes.add(json.dumps(_note(metadata), sort_keys=True))
            if "txn" in entry:
                applications.add(masked(entry["txn"]["appId"]))
            if "metaData" in entry:
                columns = {each["name"]: each for each in json.loads(entry["metaData"]["schemaString"])["fields"]}
                properties = entry["metaData"]["configuration"]
    return {
        "notes": [json.loads(metadata) for metadata in sorted(notes)],
        "applications": sorted(applications),
        "columns": columns,
        "properties": properties,
    }


def _note(metadata: Mapping[str, Any]) -> dict[str, Any]:
    said = {key: metadata[key] for key in ("oncelake", "stage", "table", "rules", "event") if key in metadata}
    return {**shape(dict(metadata)), **said, "source": masked(metadata["source"])}


def _key(key: str) -> str:
    return "<path>" if "/" in key else str(masked(key))


def _place(path: Path, lake: Path) -> str:
    return str(masked(str(path.relative_to(lake))))


def _kind(path: Path, lake: Path) -> str:
    """Return a file's kind: its name without numbers and IDs."""
    return re.sub(r"\d+", "<n>", re.sub(r"part-.*", "part", _place(path, lake)))


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a value with their paths, so that a difference is shown with its place."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in parts:
        yield from flat(each, f"{path}/{key}")
    if not parts:
        yield path, value


def golden(name: str) -> Path:
    """Return the path of a golden file."""
    return HERE / "golden" / f"{name}.json"


def read(name: str) -> Any:
    """Read a golden file."""
    return json.loads(golden(name).read_text(encoding="utf-8"))


def keep(name: str, value: Any) -> None:
    """Write a golden file."""
    golden(name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
