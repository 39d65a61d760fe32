"""Compare the rules that made a stage's rows with the declared ones, key by key, for people."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from itertools import zip_longest
from typing import Any

from pydantic import BaseModel

from oncelake.engine.settings import SECRET_KEYS
from oncelake.silver.parsing.format import LogFormat
from oncelake.silver.settings import Deduplicate
from oncelake.silver.transform import TimeLimits

# Shown in the place of a value that is secret.
HIDDEN = "(not shown)"
# The last parts of keys that are secret in a rule, or that follow from a secret.
_SECRET = ("key_variable", "key_id")
_UNSET = "not set"


@dataclass(frozen=True)
class Difference:
    """One key that has another value.

    Attributes:
        key: the key, such as `where` or `format.zone`.
        before: the old value as text; None without one.
        now: the new value as text; None without one.
    """

    key: str
    before: str | None
    now: str | None

    def __str__(self) -> str:
        """Return the difference as a sentence."""
        if self.before is None:
            return f"{self.key}: added, {self.now}"
        if self.now is None:
            return f"{self.key}: removed; it was {self.before}"
        if self.now == HIDDEN:
            return f"{self.key}: changed {HIDDEN}"
        return f"{self.key}: {self.before} becomes {self.now}"

    def to_dict(self) -> dict[str, Any]:
        """Return the difference for JSON."""
        return asdict(self)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    """Return the keys in which two nested mappings differ, in the order of the new one; a secret value is hidden."""
    old, new = dict(_flat(before)), dict(_flat(now))
    keys = [*new, *(key for key in old if key not in new)]
    return [Difference(key, _text(key, old), _text(key, new)) for key in keys if old.get(key) != new.get(key)]


def differing_rules(
    before: Sequence[Mapping[str, Any]],
    now: Sequence[Mapping[str, Any]],
    sources_before: Sequence[str],
    sources: Sequence[str],
) -> list[Difference]:
    """Return in which keys two lists of rules of one stage differ.

    Args:
        before: the recorded rules.
        now: the declared rules.
        sources_before: the names of the sources that silver read; if their number differs from that of the formats,
            the names are not known.
        sources: the names of the sources now.
    """
    return differences(_labelled(before, sources_before), _labelled(now, sources))


def _labelled(rules: Sequence[Mapping[str, Any]], sources: Sequence[str]) -> dict[str, Any]:
    """Return a stage's rules as one mapping; only one kind of rule has each key."""
    labelled: dict[str, Any] = {}
    formats = [rule for rule in rules if _is_format(rule)]
    names: Sequence[str | None] = sorted(sources) if len(sources) == len(formats) else ()
    for number, (rule, name) in enumerate(zip_longest(formats, names), 1):
        label = "format" if len(formats) == 1 else f"format of {name or f'source {number}'}"
        labelled[label] = _with_defaults(rule or {}, LogFormat)
    for rule in (rule for rule in rules if not _is_format(rule)):
        if "expectation" in rule:
            expectation = {key: value for key, value in rule.items() if key not in ("id", "expectation")}
            labelled[f"rule {rule['id']}"] = {**expectation, **rule["expectation"]}
        elif {"transform", "source"} <= rule.keys():
            labelled["transform"] = rule["transform"]
            labelled["the code of transform"] = {key: value for key, value in rule.items() if key != "transform"}
        elif {"key", "within"} <= rule.keys():
            labelled["deduplicate"] = _with_defaults(rule, Deduplicate)
        elif rule.keys() <= TimeLimits.model_fields.keys():
            labelled |= _with_defaults(rule, TimeLimits)
        else:
            labelled |= {"mask": rule} if "rules" in rule else rule
    return labelled


def _is_format(rule: Mapping[str, Any]) -> bool:
    return "time" in rule and "expectation" not in rule


def _with_defaults(rule: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Return a rule with the defaults of a model's plain keys, which the record leaves out."""
    defaults = {
        field.alias or name: model.model_construct().model_dump(mode="json", include={name}).get(name)
        for name, field in model.model_fields.items()
        if not field.is_required()
    }
    return {**{key: value for key, value in defaults.items() if isinstance(value, str | int)}, **rule}


def _flat(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each value inside a nested one."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value, 1):
            yield from _flat(item, f"{key}.{item.get('name', number) if isinstance(item, Mapping) else number}")
    elif value is not None:
        yield key, _plain(value)


def _plain(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text(key: str, values: Mapping[str, str]) -> str | None:
    if key not in values:
        return None
    return HIDDEN if is_secret(key) else values[key]


def is_secret(key: str) -> bool:
    """Return True if the value of a key is never shown."""
    last = key.rpartition(".")[2]
    return last in _SECRET or any(fnmatch(key, name) or fnmatch(key, f"{name}.*") for name in SECRET_KEYS)


def sides(changed: Sequence[Difference]) -> tuple[str, str]:
    """Return in words what differs, in the new declaration and in the old one."""
    now = ", ".join(f"{one.key} {_UNSET if one.now is None else one.now}" for one in changed)
    before = ", ".join(f"{one.key} {_UNSET if one.before is None else one.before}" for one in changed)
    return now, before
