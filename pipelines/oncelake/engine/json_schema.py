"""The JSON Schema of the configuration file, with which editors complete and check it."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from oncelake.engine.settings import Settings

_DURATION = r"^(\d+(\.\d+)? (millisecond|second|minute|hour|day)s?|P.+)$"


class _AsInYaml(GenerateJsonSchema):
    """Describes values as a file may write them, and as `load` reads them."""

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        return {"type": "string", "pattern": _DURATION, "examples": ["10 seconds", "1 hour"]}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        values = schema.get("values_schema", {})
        if values.get("type") == "str":  # options of Kafka and Spark, whose keys may be nested
            return {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "object"]}}
        return super().dict_schema(schema)


def settings_schema() -> dict[str, Any]:
    """Return the JSON Schema of the settings; no section is required, because the environment may have it."""
    schema = Settings.model_json_schema(schema_generator=_AsInYaml)
    schema.pop("required", None)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "oncelake"}
