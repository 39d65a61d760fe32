"""Resolve the bundle to what a target deploys: overrides, variables, mode and references."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.bundle.files import BundleError, Config, merged, together
from tests.support.bundle.mode import with_mode

USER = {"userName": "ada@example.com", "short_name": "ada"}
_REFERENCE = re.compile(r"\$\{([^${}]*)\}")
_MERGED = ("bundle", "workspace", "artifacts", "resources", "sync", "permissions", "presets")
_REPLACED = ("run_as",)
# maximum depth of variables that name other variables
_ROUNDS = 11


@dataclass(frozen=True)
class Bundle:
    """A bundle as one target deploys it.

    Attributes:
        root: the directory of databricks.yml.
        target: dev or prod.
        mode: the target's mode.
        config: databricks.yml with everything it includes, every reference resolved, without variables and targets.
        file_path: the directory of the bundle's files in the workspace.
        used: the variables that are referred to.
    """

    root: Path
    target: str
    mode: str
    config: Config
    file_path: str
    used: frozenset[str]

    @property
    def jobs(self) -> Config:
        """Return the jobs by name."""
        jobs: Config = self.config["resources"]["jobs"]
        return jobs


def resolve(root: Path, target: str, given: Mapping[str, Any]) -> Bundle:
    """Resolve a target of the bundle.

    Args:
        root: the directory of databricks.yml.
        target: the target's name.
        given: values of variables, as from `--var` or `variable-overrides.json`.

    Raises:
        BundleError: the Databricks CLI would refuse it: a reference leads nowhere, or a variable has no value.
    """
    config = together(root)
    targets = config.pop("targets", {})
    if target not in targets:
        raise BundleError(f"target {target} is not among {', '.join(targets)}")
    override = targets[target]
    for key in (*_MERGED, *_REPLACED):
        if key in override:
            config[key] = override[key] if key in _REPLACED else merged(config.get(key), override[key], key)
    values = _values(config.pop("variables", {}), override.get("variables", {}), given)
    workspace = _workspace(config, target)
    lookup = _Lookup(
        {
            "bundle": {**config["bundle"], "target": target},
            "workspace": {**workspace, "current_user": USER},
            "var": values,
            "artifacts": config.get("artifacts", {}),
        }
    )
    mode = override.get("mode", "")
    resolved = _without_references(config, lookup, "resources")
    resolved = with_mode(resolved, mode, USER["short_name"])
    resolved = _without_references(resolved, _Lookup({"resources": resolved["resources"]}))
    return Bundle(root, target, mode, resolved, lookup.text("workspace.file_path"), frozenset(lookup.used))


def _values(declared: Config, override: Config, given: Mapping[str, Any]) -> Config:
    for name in (*override, *given):
        if name not in declared:
            raise BundleError(f"variable {name} is not declared, and is given a value")
    out = {}
    for name, declaration in declared.items():
        values = [each[name] for each in (given, override) if name in each]
        if not values and "default" not in declaration:
            raise BundleError(f"no value assigned to required variable {name}")
        out[name] = values[0] if values else declaration["default"]
        if isinstance(out[name], dict | list) != (declaration.get("type") == "complex"):
            raise BundleError(f"variable {name}: `type: complex` is for a mapping or a list, and for these needed")
    return out


def _workspace(config: Config, target: str) -> Config:
    workspace = config.get("workspace", {})
    named = f"{config['bundle']['name']}/{target}"
    root_path = workspace.get("root_path", f"/Workspace/Users/{USER['userName']}/.bundle/{named}")
    return {"root_path": root_path, "file_path": f"{root_path}/files", **workspace}


@dataclass
class _Lookup:
    """The targets of references, and the variables that were used."""

    places: Config

    def __post_init__(self) -> None:
        self.used: set[str] = set()

    def __call__(self, path: str) -> Any:
        kind, *keys = path.split(".")
        if kind == "var" and keys:
            self.used.add(keys[0])
        at = self.places[kind]
        for key in keys:
            if not isinstance(at, Mapping) or key not in at:
                raise BundleError(f"${{{path}}} leads nowhere")
            at = at[key]
        return at

    def text(self, path: str) -> str:
        return str(_resolved(f"${{{path}}}", self, path))


def _without_references(value: Any, lookup: _Lookup, *later: str, place: str = "") -> Any:
    if isinstance(value, dict):
        return {
            key: _without_references(each, lookup, *later, place=f"{place}.{key}".lstrip("."))
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_without_references(each, lookup, *later, place=f"{place}[{at}]") for at, each in enumerate(value)]
    return _resolved(value, lookup, place, later) if isinstance(value, str) else value


def _resolved(text: str, lookup: _Lookup, place: str, later: tuple[str, ...] = ()) -> Any:
    """Resolve a text: a reference alone becomes its value, one inside a text becomes part of the text."""
    value: Any = text
    for _ in range(_ROUNDS):
        if not isinstance(value, str):
            return _without_references(value, lookup, *later, place=place)
        if not _due(value, later):
            return value
        value = _once(value, lookup, place, later)
    raise BundleError(f"{place}: the references of {text} are too deep")


def _due(text: str, later: tuple[str, ...]) -> bool:
    return any(path.partition(".")[0] not in later for path in _REFERENCE.findall(text))


def _once(text: str, lookup: _Lookup, place: str, later: tuple[str, ...]) -> Any:
    def value(path: str) -> Any:
        kind = path.partition(".")[0]
        if kind in later:
            return f"${{{path}}}"
        if kind not in lookup.places:
            raise BundleError(f"{place}: ${{{path}}} leads nowhere")
        try:
            return lookup(path)
        except BundleError as error:
            raise BundleError(f"{place}: {error}") from None

    whole = _REFERENCE.fullmatch(text)
    return value(whole[1]) if whole else _REFERENCE.sub(_texts(value), text)


def _texts(value: Callable[[str], Any]) -> Callable[[re.Match[str]], str]:
    return lambda found: str(value(found[1]))
