"""Read a dashboard's file as the Databricks CLI deploys it, and find what cannot be drawn.

The format of the file is that of Databricks' own dashboards in databricks/bundle-examples; it has no schema.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.bundle.files import BundleError, Config
from tests.support.bundle.resolve import Bundle

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
# the format version of each kind of widget
_VERSIONS = {"bar": 3, "counter": 2, "line": 3, "table": 2}
_COLUMNS = 6


def content(bundle: Bundle, dashboard: Config) -> Config:
    """Return the contents of a dashboard's file, with references resolved.

    The CLI resolves variables before it reads the file, and resources after it: a variable in it would stay as it is.

    Raises:
        BundleError: there is no such file, or it is not a dashboard.
    """
    path = bundle.root / dashboard["file_path"]
    try:
        found = json.loads(_REFERENCE.sub(lambda each: _resource(bundle, each[1]), path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise BundleError(f"file_path: {path.name} cannot be read: {error}") from None
    if not isinstance(found, dict) or not found.keys() >= {"datasets", "pages"}:
        raise BundleError(f"file_path: {path.name} has no datasets or no pages")
    return found


def queries(content: Config) -> dict[str, str]:
    """Return the SQL of each dataset."""
    return {each["name"]: "".join(each["queryLines"]) for each in content["datasets"]}


def wanted(content: Config) -> Iterator[tuple[str, str]]:
    """Yield each expression that a widget queries, with its dataset."""
    for widget in _widgets(content):
        for query in (each["query"] for each in widget.get("queries", [])):
            yield from ((query["datasetName"], field["expression"]) for field in query["fields"])


def problems(bundle: Bundle, dashboard: Config) -> Iterator[str]:
    """Yield the problems of a dashboard and its file."""
    for key in ("display_name", "warehouse_id", "file_path"):
        if not dashboard.get(key):
            yield f"{key} is required"
            return
    if dashboard.get("embed_credentials"):
        yield "embed_credentials: the CLI refuses it where run_as is set"
    try:
        found = content(bundle, dashboard)
    except BundleError as error:
        yield str(error)
        return
    columns = {name: set(re.findall(r"\bAS (\w+)", sql)) for name, sql in queries(found).items()}
    names = [each["name"] for each in _widgets(found)]
    yield from (f"widget {name} is there twice" for name in set(names) if names.count(name) > 1)
    for page in found["pages"]:
        yield from (f"page {page['name']}: {said}" for said in _layout(page))
    for widget in _widgets(found):
        yield from (f"widget {widget['name']}: {said}" for said in _widget(widget, columns))


def _resource(bundle: Bundle, path: str) -> str:
    kind, *keys = path.split(".")
    at: Any = bundle.config["resources"]
    for key in keys:
        at = at.get(key) if isinstance(at, Mapping) else None
    if kind != "resources" or not isinstance(at, str):
        raise BundleError(f"file_path: ${{{path}}} stays as it is in a dashboard's file: it names no resource's field")
    return at


def _widgets(content: Config) -> list[Config]:
    return [each["widget"] for page in content["pages"] for each in page["layout"]]


def _layout(page: Config) -> Iterator[str]:
    if page.get("pageType") != "PAGE_TYPE_CANVAS":
        yield "pageType is PAGE_TYPE_CANVAS"
    taken: set[tuple[int, int]] = set()
    for each in page["layout"]:
        x, y, width, height = (each["position"][key] for key in ("x", "y", "width", "height"))
        cells = {(column, row) for column in range(x, x + width) for row in range(y, y + height)}
        if x + width > _COLUMNS or taken & cells:
            yield f"{each['widget']['name']} is over another widget, or over the edge"
        taken |= cells


def _widget(widget: Config, columns: Mapping[str, set[str]]) -> Iterator[str]:
    if "spec" not in widget:
        return
    spec = widget["spec"]
    if _VERSIONS.get(spec["widgetType"]) != spec["version"]:
        yield f"no test knows version {spec['version']} of {spec['widgetType']}"
    fields = set()
    for query in (each["query"] for each in widget["queries"]):
        dataset = query["datasetName"]
        if dataset not in columns:
            yield f"there is no dataset {dataset}"
            return
        for field in query["fields"]:
            fields.add(field["name"])
            for column in set(re.findall(r"`([^`]+)`", field["expression"])) - columns[dataset]:
                yield f"dataset {dataset} has no column {column}"
    shown = set(_shown(spec["encodings"]))
    if shown != fields:
        yield f"shows {', '.join(sorted(shown))}, and asks for {', '.join(sorted(fields))}"


def _shown(value: Any) -> Iterator[str]:
    """Yield the fields that a widget's encodings name."""
    if isinstance(value, list):
        for inner in value:
            yield from _shown(inner)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from [inner] if key == "fieldName" else _shown(inner)
