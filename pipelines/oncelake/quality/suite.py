"""This is where suites of expectations are read: Great Expectations' own JSON, one file a table.

The expectations that a single row can meet or break are the rules of the split. The others, and all of them once
more, are judged by the audit, over a table.
"""

import importlib.util
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field, SerializeAsAny, ValidationError

from oncelake.common.errors import ConfigError
from oncelake.common.lake import SILVER, Table
from oncelake.common.models import Strict, one_line, shown
from oncelake.quality.expectations import EXPECTATIONS, RowExpectation

M = TypeVar("M", bound=Strict)
Severity = Literal["critical", "warning", "info"]
# What a line can break before any rule of a suite is asked; a suite's rule has another name.
FORMAT_RULES = ("null_value", "blank", "pattern", "time", "time_range", "level")
# What an expectation is told beside its arguments; the split has no use for it.
_HOW_TO_RUN = ("result_format", "catch_exceptions", "include_config", "batch_id")


class Declared(Strict):
    """One expectation as a suite's file has it."""

    type: str
    kwargs: dict[str, Any] = Field(default_factory=dict)
    severity: Severity = "critical"
    meta: dict[str, Any] | None = None
    notes: str | list[str] | None = None
    description: str | None = None
    id: str | None = None
    rendered_content: Any = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that say what is expected."""
        return {key: value for key, value in self.kwargs.items() if key not in _HOW_TO_RUN and value is not None}

    @property
    def columns(self) -> list[str]:
        """The columns that it names."""
        named = [self.kwargs.get(key) for key in ("column", "column_A", "column_B")]
        return [str(each) for each in (*named, *self.kwargs.get("column_list", ())) if each is not None]


class SuiteFile(Strict):
    """A suite's file, as Great Expectations writes it."""

    name: str
    expectations: tuple[Declared, ...]
    id: str | None = None
    meta: dict[str, Any] | None = None
    notes: str | list[str] | None = None
    suite_parameters: dict[str, Any] | None = None


class Rule(Strict):
    """An expectation as a rule of the split.

    Attributes:
        id: what reasons call it: `meta.rule` of the expectation, or its type and column.
        severity: critical refuses a row that breaks it, warning marks one.
    """

    id: str
    type: str
    severity: Severity
    expectation: SerializeAsAny[RowExpectation]

    @property
    def columns(self) -> str:
        """The columns that it is about, as text."""
        return ", ".join(self.expectation.columns)


@dataclass(frozen=True)
class Suite:
    """One table's expectations.

    Attributes:
        path: the file.
        declared: what it says.
        ids: what each of its expectations is called.
        by_row: each of them as it is judged by one row, None where that cannot be.
    """

    table: Table
    path: Path
    declared: SuiteFile
    ids: tuple[str, ...]
    by_row: tuple[RowExpectation | None, ...] = ()

    @property
    def rules(self) -> list[Rule]:
        """The rules of the split: of silver's expectations those that one row can meet or break, and that matter."""
        every = zip(self.ids, self.declared.expectations, self.by_row, strict=True)
        return [
            Rule(id=name, type=each.type, severity=each.severity, expectation=expectation)
            for name, each, expectation in every
            if expectation is not None and each.severity != "info" and self.table == SILVER
        ]

    def as_one_of(self, kinds: Mapping[str, type[M]], number: int) -> M | None:
        """Read an expectation's arguments as its kind's; None for another type, and for one about some rows alone.

        Raises:
            ConfigError: an argument is not accepted.
        """
        each = self.declared.expectations[number]
        kind = kinds.get(each.type)
        if kind is None or "row_condition" in each.arguments:
            return None
        try:
            return kind.model_validate(each.arguments)
        except ValidationError as error:
            raise ConfigError(f"{self.at(number)}: {one_line(error)}") from None

    def at(self, number: int) -> str:
        """Name an expectation in its file, for errors."""
        return f"{self.path}: expectation {number + 1} ({self.ids[number]})"


Suites = Mapping[Table, Suite]


def read_suites(directory: Path, tables: Iterable[Table]) -> dict[Table, Suite]:
    """Read every suite of a directory: `<layer>.<table>.json`.

    Args:
        directory: where they are; none when there is no such directory.
        tables: the tables that there can be suites for.

    Raises:
        ConfigError: a file is none, or is of no table; says the file, the expectation and what is accepted.
    """
    known = {str(table): table for table in tables}
    suites: dict[Table, Suite] = {}
    for path in sorted(directory.glob("*.json")):
        if path.stem not in known:
            names = ", ".join(f"{name}.json" for name in known)
            raise ConfigError(f"{path}: there is no table {path.stem}; a suite's file is named {names}")
        suites[known[path.stem]] = read_suite(path, known[path.stem])
    return suites


def read_suite(path: Path, table: Table) -> Suite:
    """Read one suite.

    Raises:
        ConfigError: it is none; says the file, the expectation and what is accepted.
    """
    try:
        text = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from None
    if isinstance(text, dict) and "expectation_suite_name" in text:
        raise ConfigError(f"{path} is a suite of Great Expectations before 1.0; save it anew with 1.x: `name`, `type`")
    try:
        declared = SuiteFile.model_validate(text)
    except ValidationError as error:
        raise ConfigError(f"{path}: {one_line(error)}") from None
    suite = Suite(table, path, declared, _ids(declared, path))
    judged: list[RowExpectation | None] = []
    for number, each in enumerate(declared.expectations):
        _check_known(suite, number, each)
        judged.append(suite.as_one_of(EXPECTATIONS, number))
    return replace(suite, by_row=tuple(judged))


def _check_known(suite: Suite, number: int, each: Declared) -> None:
    """Refuse what Great Expectations has not, and arguments that are to be filled in later."""
    if each.type not in EXPECTATIONS and not _is_there(each.type):
        raise ConfigError(
            f"{suite.at(number)}: there is no expectation {shown(each.type)} in Great Expectations; "
            f"judged row by row are {', '.join(sorted(EXPECTATIONS))}"
        )
    for key, value in each.arguments.items():
        if isinstance(value, dict) and "$PARAMETER" in value:
            raise ConfigError(f"{suite.at(number)}: {key} is a parameter, which nothing here fills in; give its value")


def _is_there(name: str) -> bool:
    """Tell whether Great Expectations has an expectation, without loading it for seconds."""
    found = importlib.util.find_spec("great_expectations")
    places = found.submodule_search_locations if found else None
    core = [Path(each) / "expectations" / "core" for each in places or ()]
    return name.isidentifier() and any((each / f"{name}.py").is_file() for each in core)


def _ids(declared: SuiteFile, path: Path) -> tuple[str, ...]:
    """Name every expectation: by its own `meta.rule`, else by type and columns, numbered where two are alike."""
    ids: list[str] = []
    seen: Counter[str] = Counter()
    for each in declared.expectations:
        own = (each.meta or {}).get("rule")
        if own is not None and (str(own) in ids or not str(own)):
            raise ConfigError(f"{path}: two expectations have the rule {shown(str(own))} in meta; give each its own")
        if own in FORMAT_RULES:
            raise ConfigError(f"{path}: the rule {own} in meta is one of the log format's; give another name")
        name = str(own) if own is not None else _name(each)
        seen[name] += 1
        ids.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return tuple(ids)


def _name(each: Declared) -> str:
    what = each.type.removeprefix("expect_").removeprefix("column_").removeprefix("pair_")
    what = what.removeprefix("values_to_").removeprefix("value_")
    return f"{what}({', '.join(each.columns)})"
