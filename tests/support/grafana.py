"""Check a dashboard: Grafana's own types have each of its fields, and no two panels share a place or an ID."""

import json
from collections.abc import Mapping
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard


def check_dashboard(dashboard: Mapping[str, Any]) -> None:
    """Raise AssertionError if Grafana would not read all of a dashboard."""
    register_default_plugins()
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(dict(dashboard))))
    assert _lost(dashboard, read, "dashboard") == []
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken
        taken |= cells


def _lost(given: Any, read: Any, place: str) -> list[str]:
    """Return the places of the fields that are not read as they are given."""
    if isinstance(given, dict) and isinstance(read, dict):
        return [lost for key, value in given.items() for lost in _lost(value, read.get(key), f"{place}.{key}")]
    if isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        pairs = enumerate(zip(given, read, strict=True))
        return [lost for number, (one, other) in pairs for lost in _lost(one, other, f"{place}[{number}]")]
    return [] if given == read else [place]
