"""List the keys of the settings, as their types declare them."""

from collections.abc import Iterator
from types import UnionType
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield every key, with dots between its names, and its field, in the order of the types."""
    for name, field in model.model_fields.items():
        inner = section_of(field)
        if inner is None:
            yield f"{prefix}{name}", field
        else:
            yield from keys(inner, f"{prefix}{name}.")


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the section type of a field, None for a value."""
    kinds = get_args(field.annotation) if isinstance(field.annotation, UnionType) else (field.annotation,)
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
