"""Compare the rules that made a stage's rows with the declared ones, key by key, for people."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
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


def differences(before: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> list[Difference]:
    """Return the keys in which two nested mappings differ, in the order of the new one; a secret value is hidden.

    Args:
        before: the old mapping.
        now: the new mapping.
        within: the key of both; empty at the top.
    """
    changed: list[Difference] = []
    for name in dict.fromkeys((*now, *before)):
        key = f"{within}.{name}" if within else name
        old, new = (_by_name(values.get(name)) for values in (before, now))
        if old == new:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            changed += differences(old, new, key)
        else:
            changed.append(Difference(key, *(None if value is None else _text(value, key) for value in (old, new))))
    return changed


def differing_rules(
    before: Sequence[Mapping[str, Any]],
    now: Sequence[Mapping[str, Any]],
    sources_before: Sequence[str],
    sources: Sequence[str],
) -> list[Difference]:
    """Return in which keys two lists of rules of one stage differ.

    The format of a source that only one of them has is left out.

    Args:
        before: the recorded rules.
        now: the declared rules.
        sources_before: the names of the sources that silver read; if their number differs from that of the formats,
            the names are not known.
        sources: the names of the sources now.
    """
    old, new = formats_by_source(before, sources_before), formats_by_source(now, sources)
    both = [name for name in new if name in old]
    formats = []
    for name in both:
        label = "format" if len(both) == 1 else f"format of {name}"
        formats += differences(old[name], new[name], label)
    return [*formats, *differences(_others(before), _others(now))]


def formats_by_source(rules: Sequence[Mapping[str, Any]], sources: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the log formats among a stage's rules by their sources, or by numbers if these are not known."""
    formats = [_with_defaults(rule, LogFormat) for rule in rules if is_format(rule)]
    names = sorted(sources) if len(sources) == len(formats) else map(str, range(1, len(formats) + 1))
    return dict(zip(names, formats, strict=True))


def _others(rules: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the rules that are no log format as one mapping; each kind of rule has keys of its own."""
    labelled: dict[str, Any] = {}
    for rule in (rule for rule in rules if not is_format(rule)):
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
            labelled |= {"mask": _mask(rule)} if "rules" in rule else {"record": rule}
    return labelled


def _mask(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return rules that mask data by their names, with what people declare of them."""
    named = {
        pattern["name"]: {key: value for key, value in pattern.items() if key not in ("name", "check") and value}
        for pattern in rule["rules"]
    }
    return {**named, **{key: value for key, value in rule.items() if key not in ("rules", "way")}}


def is_format(rule: Mapping[str, Any]) -> bool:
    """Return True if a rule is a log format."""
    return "time" in rule and "expectation" not in rule


def _with_defaults(rule: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Return a rule with the defaults of a model's plain keys, which the record leaves out."""
    defaults = {
        field.alias or name: model.model_construct().model_dump(mode="json", include={name}).get(name)
        for name, field in model.model_fields.items()
        if not field.is_required()
    }
    return {**{key: value for key, value in defaults.items() if isinstance(value, str | int)}, **rule}


def _by_name(value: Any) -> Any:
    """Return a list of mappings as a mapping, by their names or numbers; any other value as it is."""
    if not isinstance(value, list | tuple) or not any(isinstance(item, Mapping) for item in value):
        return value
    return {
        str(item.get("name", number) if isinstance(item, Mapping) else number): item
        for number, item in enumerate(value, 1)
    }


def _text(value: Any, key: str) -> str:
    """Return a value as text, without what is secret in it."""
    if is_secret(key):
        return HIDDEN
    value = _by_name(value)
    if isinstance(value, Mapping):
        parts = (f"{name} {_text(inner, f'{key}.{name}')}" for name, inner in value.items() if inner is not None)
        return ", ".join(parts) or "without keys"
    if isinstance(value, list | tuple):
        return ", ".join(_text(item, key) for item in value) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_secret(key: str) -> bool:
    """Return True if the value of a key is never shown."""
    last = key.rpartition(".")[2]
    return last in _SECRET or any(fnmatch(key, name) or fnmatch(key, f"{name}.*") for name in SECRET_KEYS)


def sides(changed: Sequence[Difference]) -> tuple[str, str]:
    """Return in words what differs, in the new declaration and in the old one."""
    now = ((difference.key, difference.now) for difference in changed)
    before = ((difference.key, difference.before) for difference in changed)
    return _side(now), _side(before)


def _side(values: Iterable[tuple[str, str | None]]) -> str:
    return ", ".join(f"{key} {_UNSET if value is None else value}" for key, value in values)
