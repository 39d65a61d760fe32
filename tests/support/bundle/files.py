"""Read the bundle's files and merge them, as the Databricks CLI does."""

import os
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Config = dict[str, Any]
# keys of local paths, which are relative to the file that names them
_PATHS = ("whl", "notebook_path", "python_file", "jar", "requirements", "file_path")


class BundleError(Exception):
    """Raised when the Databricks CLI would refuse the bundle."""


class _Loader(yaml.SafeLoader):
    """Refuses a repeated key, of which YAML would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise BundleError(f"{node.start_mark.name}, line {node.start_mark.line + 1}: {', '.join(twice)} twice")
        return super().construct_mapping(node, deep)


def read_all(root: Path) -> dict[Path, Config]:
    """Return every file of the bundle: databricks.yml, then what it includes."""
    main = root / "databricks.yml"
    files = {main: _read(main)}
    for pattern in files[main].get("include", []):
        found = sorted(root.glob(pattern))
        if not found:
            raise BundleError(f"include: no file is {pattern}")
        files.update({path: _read(path) for path in found})
    return files


def together(root: Path) -> Config:
    """Return the files as one mapping, with local paths relative to the repository."""
    out: Config = {}
    for path, file in read_all(root).items():
        for kind, name in _resources(file):
            if name in out.get("resources", {}).get(kind, {}):
                raise BundleError(f"{path.name}: resources.{kind}.{name} is in another file, too")
        out = merged(out, _from_root(file, path.parent, root), str(path.name))
    return out


def merged(base: Any, over: Any, place: str) -> Any:
    """Merge two values: mappings key by key, lists by concatenation; for anything else the second wins."""
    if base is None or over is None:
        return base if over is None else over
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        return {key: merged(base.get(key), over.get(key), f"{place}.{key}") for key in {**base, **over}}
    if isinstance(base, list) and isinstance(over, list):
        return base + over
    if isinstance(base, Mapping | list) or isinstance(over, Mapping | list):
        raise BundleError(f"{place}: {over!r} cannot be merged with {base!r}")
    return over


def _read(path: Path) -> Config:
    try:
        with path.open(encoding="utf-8") as file:
            value = yaml.load(file, Loader=_Loader)
    except yaml.YAMLError as error:
        raise BundleError(f"{path.name} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(value, dict):
        raise BundleError(f"{path.name}: a mapping is expected")
    return value


def _resources(file: Config) -> Iterator[tuple[str, str]]:
    for kind, named in file.get("resources", {}).items():
        for name in named:
            yield kind, name


def _from_root(value: Any, directory: Path, root: Path, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _from_root(inner, directory, root, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_from_root(inner, directory, root, key) for inner in value]
    if key in _PATHS and isinstance(value, str) and not value.startswith(("/", "${")) and ":" not in value:
        return os.path.relpath(directory / value, root)
    return value
