"""The base of all models for files and settings that users write: strict, frozen, without unknown keys."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from fnmatch import fnmatch
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from oncelake.common.wording import did_you_mean, shown


class Strict(BaseModel):
    """A value read from the configuration; an unknown key is an error that names the key."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True, hide_input_in_errors=True)


def later(default: object, **constraints: Any) -> Any:
    """Define a field that was added to a declaration later: while it has its default, it is left out of all text.

    So the fingerprints of older declarations stay the same, and batches that began under one can be finished.
    """
    return Field(default, exclude_if=lambda value: value == default, **constraints)


def _duration(value: object) -> object:
    """Parse `2 seconds`, `500 milliseconds` or `1 day`; leave any other form to pydantic."""
    units = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
    match = re.fullmatch(r"(\d{1,9}(?:\.\d+)?) (millisecond|second|minute|hour|day)s?", str(value))
    return timedelta(seconds=float(match[1]) * units[match[2]]) if match else value


Duration = Annotated[timedelta, BeforeValidator(_duration)]


def as_tuple(value: object) -> object:
    """Return a text as a tuple of one; a field that is a list can be written as one text."""
    return (value,) if isinstance(value, str) else value


def flat(value: object) -> object:
    """Join nested keys with dots, as Kafka and Spark expect: {ssl: {protocol: x}} becomes ssl.protocol."""
    if not isinstance(value, Mapping):
        return value
    out: dict[str, object] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            inside = flat(inner)
            assert isinstance(inside, dict)
            out.update({f"{key}.{name}": text for name, text in inside.items()})
        else:
            out[str(key)] = str(inner).lower() if isinstance(inner, bool) else inner
    return out


Options = Annotated[dict[str, str], BeforeValidator(flat)]


_MAPPING = "expected a mapping of keys and values; write its keys below it, or remove it"
_LIST = "expected a list, such as [one, two]"
_A_DURATION = (
    "expected a duration: a number, a space, and milliseconds, seconds, minutes, hours or days, such as 10 seconds"
)
# What to write, where pydantic's own message does not say it.
_EXPECTED = {
    "time_delta_parsing": _A_DURATION,
    "time_delta_type": _A_DURATION,
    "timezone_aware": "expected a time with its zone, such as 1970-01-01T00:00:00Z",
    "dict_type": _MAPPING,
    "mapping_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "list_type": _LIST,
    "tuple_type": _LIST,
}


def one_line(error: ValidationError, *, model: type[BaseModel] | None = None, secret: Iterable[str] = ()) -> str:
    """Return one line that says what is wrong, with the given value.

    Args:
        error: the error.
        model: the model that does not accept the value, to name a key that is close to an unknown one.
        secret: keys whose values are not shown.
    """
    errors = error.errors()
    # pydantic takes a list for too short if its items are wrong
    items = {fault["loc"][:end] for fault in errors for end in range(len(fault["loc"]))}
    faults = (fault for fault in errors if fault["type"] != "too_short" or fault["loc"] not in items)
    return "; ".join(_sentence(dict(fault), model, tuple(secret)) for fault in faults)


def _sentence(fault: dict[str, Any], model: type[BaseModel] | None, secret: tuple[str, ...]) -> str:
    key = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"{key}: there is no such setting{_close_key(model, fault['loc'])}"
    if fault["type"] == "missing":
        return f"{key}: is required"
    message = _EXPECTED.get(fault["type"], str(fault["msg"]))
    message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    hidden = any(fnmatch(key, name) or fnmatch(key, f"{name}.*") for name in secret)
    sentence = f"{key}: {message}" if key else message
    if hidden or isinstance(fault["input"], (Mapping, BaseModel)):  # a whole section may contain a secret too
        return sentence
    return f"{sentence}, not {shown(fault['input'])}"


def _close_key(model: type[BaseModel] | None, place: tuple[int | str, ...]) -> str:
    """Return the question whether a known key beside an unknown one was meant; empty without a close one."""
    kind: Any = model
    for part in place[:-1]:
        kind = _part_of(kind, part)
    names = _fields(kind)
    return did_you_mean(str(place[-1]), (".".join(map(str, (*place[:-1], name))) for name in names))


def _part_of(kind: Any, part: int | str) -> Any:
    """Return the type of a field of a model, or of an item of a mapping or a list; None if it is not known."""
    if fields := _fields(kind):
        return fields.get(str(part))
    items = [item for item in get_args(_plain(kind)) if item is not Ellipsis]
    return items[-1] if items else None


def _fields(kind: Any) -> dict[str, Any]:
    """Return the types of a model's fields by their keys; nothing for another type."""
    kind = _plain(kind)
    is_model = isinstance(kind, type) and issubclass(kind, BaseModel)
    return {field.alias or name: field.annotation for name, field in kind.model_fields.items()} if is_model else {}


def _plain(kind: Any) -> Any:
    """Return a type without None and annotations."""
    while get_origin(kind) in (UnionType, Union, Annotated):
        kind = next(item for item in get_args(kind) if item is not NoneType)
    return kind


def fingerprint(*models: BaseModel) -> str:
    """Return a short hash of models; equal settings have equal hashes."""
    return fingerprint_of("\n".join(model.model_dump_json() for model in models))


def fingerprint_of(text: str) -> str:
    """Return a short hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
