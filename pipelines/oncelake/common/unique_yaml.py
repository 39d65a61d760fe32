"""Read YAML in which no mapping has a key twice; PyYAML itself keeps the last one without a word."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from oncelake.common.errors import ConfigError


class RepeatedKeyError(yaml.YAMLError):
    """A mapping has a key twice, in two lines, which are counted from one."""

    def __init__(self, key: Hashable, first: int, second: int) -> None:
        self.key, self.lines = key, (first, second)
        super().__init__(f"the key {key} stands in line {first} and again in line {second}; keep one")


class _UniqueKeys(yaml.SafeLoader):
    """The safe loader, with the keys of each mapping compared."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[Hashable, int] = {}
        for key_node, _ in node.value:
            line = key_node.start_mark.line + 1
            # `<<` includes another mapping, whose keys this one may replace
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != "tag:yaml.org,2002:merge":
                key = self.construct_object(key_node, deep=True)
                if key in seen:
                    raise RepeatedKeyError(key, seen[key], line)
                seen[key] = line
        return super().construct_mapping(node, deep)


def read(path: Path) -> Any:
    """Read the one document of a file.

    Raises:
        ConfigError: it is not YAML, or a mapping has a key twice.
        OSError: the file cannot be read.
        UnicodeDecodeError: it is not UTF-8.
    """
    try:
        return load(path.read_text(encoding="utf-8"))
    except RepeatedKeyError as error:
        raise ConfigError(f"{path}: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error


def load(text: str) -> Any:
    """Parse the one document of a text.

    Raises:
        RepeatedKeyError: a mapping has a key twice.
        yaml.YAMLError: it is not YAML.
    """
    return yaml.load(text, _UniqueKeys)  # a safe loader
