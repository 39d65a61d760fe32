"""Check OpenLineage events against its specification and against the schema of oncelake's own facet."""

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

import oncelake

FACET_SCHEMA = Path(str(oncelake.__file__)).parent / "observe/openlineage/BatchRunFacet.json"
_SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json"


def _facets(kind: str) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": {"$ref": f"#/$defs/{kind}"}}


def _dataset(kind: str) -> dict[str, Any]:
    strings = {name: {"type": "string"} for name in ("namespace", "name")}
    facets = {"facets": _facets("BaseFacet"), f"{kind}Facets": _facets("BaseFacet")}
    return {"type": "object", "properties": {**strings, **facets}, "required": ["namespace", "name"]}


# What version 2-0-2 of the specification asks of a run event. With OPENLINEAGE_SPEC, its own file is read instead.
_OWN_WORDS: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": _SPEC,
    "$defs": {
        "RunEvent": {
            "type": "object",
            "properties": {
                "eventTime": {"type": "string", "format": "date-time"},
                "producer": {"type": "string", "format": "uri"},
                "schemaURL": {"type": "string", "format": "uri"},
                "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
                "run": {
                    "type": "object",
                    "properties": {"runId": {"type": "string", "format": "uuid"}, "facets": _facets("RunFacet")},
                    "required": ["runId"],
                },
                "job": {
                    "type": "object",
                    "properties": {
                        "namespace": {"type": "string"},
                        "name": {"type": "string"},
                        "facets": _facets("BaseFacet"),
                    },
                    "required": ["namespace", "name"],
                },
                "inputs": {"type": "array", "items": _dataset("input")},
                "outputs": {"type": "array", "items": _dataset("output")},
            },
            "required": ["eventTime", "producer", "schemaURL", "run", "job"],
        },
        "RunFacet": {"$ref": "#/$defs/BaseFacet"},
        "BaseFacet": {
            "type": "object",
            "properties": {name: {"type": "string", "format": "uri"} for name in ("_producer", "_schemaURL")},
            "required": ["_producer", "_schemaURL"],
        },
    },
}
_FORMATS = FormatChecker(formats=())
_FORMATS.checks("date-time", raises=ValueError)(lambda text: datetime.fromisoformat(text).tzinfo is not None)
_FORMATS.checks("uuid", raises=ValueError)(lambda text: bool(UUID(text)))
_FORMATS.checks("uri")(lambda text: bool(urlsplit(text).scheme))


def must_be_valid(event: dict[str, Any]) -> None:
    """Raise ValidationError unless both schemas accept an event."""
    spec = json.loads(Path(path).read_text()) if (path := os.environ.get("OPENLINEAGE_SPEC")) else _OWN_WORDS
    own = json.loads(FACET_SCHEMA.read_text())
    registry = Registry().with_resources([(schema["$id"], Resource.from_contents(schema)) for schema in (spec, own)])
    run_event = {"$ref": f"{_SPEC}#/$defs/RunEvent"}
    Draft202012Validator(run_event, registry=registry, format_checker=_FORMATS).validate(event)
    Draft202012Validator(own, registry=registry, format_checker=_FORMATS).validate(event["run"]["facets"])
