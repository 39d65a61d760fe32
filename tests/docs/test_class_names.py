"""A class name means one thing in the whole package."""

import ast
from collections import defaultdict
from pathlib import Path

import oncelake


def test_no_two_classes_have_one_name() -> None:
    package = Path(oncelake.__file__).parent
    places: dict[str, list[str]] = defaultdict(list)
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(package)))
    assert len(places) > 100
    of_py4j = "Java"  # py4j looks for a class of this name within each class that Java may call
    assert {name: at for name, at in places.items() if len(at) > 1 and name != of_py4j} == {}
