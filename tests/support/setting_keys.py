"""The keys of the settings, as their types declare them."""

from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield every key with its field, dots between the names, in the order of the types."""
    for name, field in model.model_fields.items():
        inner = section_of(field)
        if inner is None:
            yield f"{prefix}{name}", field
        else:
            yield from keys(inner, f"{prefix}{name}.")


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the section that a field is, None for a value."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
