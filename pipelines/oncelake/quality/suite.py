"""Read suites of expectations: Great Expectations' own JSON format, one file for each table.

Expectations that can be checked on a single row are the rules of the split. The audit checks these again, and all
other expectations, on whole tables.
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
from oncelake.common.models import Strict, one_line
from oncelake.common.wording import did_you_mean, shown
from oncelake.quality.expectations import EXPECTATIONS, RowExpectation

M = TypeVar("M", bound=Strict)
Severity = Literal["critical", "warning", "info"]
# The log format's own rules, checked before the rules of a suite; a suite's rule needs another name. The rules of
# records apply only to a format that puts several lines together.
RECORD_RULES = ("record_size", "record_start", "record_mixed")
EACH_RULES = ("each",)
STAND_IN_RULES = ("line_size", "nul_bytes")
FORMAT_RULES = (
    "null_value",
    *STAND_IN_RULES,
    *RECORD_RULES,
    "blank",
    *EACH_RULES,
    "pattern",
    "pattern_steps",
    "time",
    "time_zone",
    "time_range",
    "level",
)
# Options on how to run an expectation, not arguments; the split does not use them.
_HOW_TO_RUN = ("result_format", "catch_exceptions", "include_config", "batch_id")


class Declared(Strict):
    """One expectation as written in a suite's file."""

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
        """The arguments of the expectation, without options on how to run it."""
        return {key: value for key, value in self.kwargs.items() if key not in _HOW_TO_RUN and value is not None}

    @property
    def columns(self) -> list[str]:
        """The names of the columns in the expectation's arguments."""
        named = [self.kwargs.get(key) for key in ("column", "column_A", "column_B")]
        return [str(name) for name in (*named, *self.kwargs.get("column_list", ())) if name is not None]


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
        id: the rule's name in reasons: `meta.rule` of the expectation, or its type and column.
        severity: a row that breaks a critical rule is refused; one that breaks a warning rule is flagged.
    """

    id: str
    type: str
    severity: Severity
    expectation: SerializeAsAny[RowExpectation]

    @property
    def columns(self) -> str:
        """The names of the columns that the rule checks, separated by commas."""
        return ", ".join(self.expectation.columns)


@dataclass(frozen=True)
class Suite:
    """One table's expectations.

    Attributes:
        path: the suite's file.
        declared: the file's content.
        ids: the name of each expectation.
        by_row: each expectation as a check on a single row; None where that is not possible.
    """

    table: Table
    path: Path
    declared: SuiteFile
    ids: tuple[str, ...]
    by_row: tuple[RowExpectation | None, ...] = ()

    @property
    def rules(self) -> list[Rule]:
        """The rules of the split: silver's expectations that can be checked on a single row, except severity info."""
        every = zip(self.ids, self.declared.expectations, self.by_row, strict=True)
        return [
            Rule(id=name, type=declared.type, severity=declared.severity, expectation=expectation)
            for name, declared, expectation in every
            if expectation is not None and declared.severity != "info" and self.table == SILVER
        ]

    def as_one_of(self, kinds: Mapping[str, type[M]], number: int) -> M | None:
        """Return an expectation as one of the given kinds; None for other types, and for one with a row_condition.

        Raises:
            ConfigError: an argument is not accepted.
        """
        declared = self.declared.expectations[number]
        kind = kinds.get(declared.type)
        if kind is None or "row_condition" in declared.arguments:
            return None
        try:
            return kind.model_validate(declared.arguments)
        except ValidationError as error:
            raise ConfigError(f"{self.at(number)}: {one_line(error, model=kind)}") from None

    def at(self, number: int) -> str:
        """Return the place of an expectation in its file, for errors."""
        return f"{self.path}: expectation {number + 1} ({self.ids[number]})"


Suites = Mapping[Table, Suite]


def read_suites(directory: Path, tables: Iterable[Table]) -> dict[Table, Suite]:
    """Read every suite of a directory: `<layer>.<table>.json`.

    Args:
        directory: the directory of the suites; the result is empty if it does not exist.
        tables: the tables that can have a suite.

    Raises:
        ConfigError: a file is not a suite, or belongs to no table; the message names the file, the expectation and
            what is accepted.
    """
    known = {str(table): table for table in tables}
    suites: dict[Table, Suite] = {}
    for path in sorted(directory.glob("*.json")):
        if path.stem not in known:
            names = ", ".join(f"{name}.json" for name in known)
            raise ConfigError(
                f"{path}: there is no table {path.stem}; accepted file names: {names}{did_you_mean(path.stem, known)}"
            )
        suites[known[path.stem]] = read_suite(path, known[path.stem])
    return suites


def read_suite(path: Path, table: Table) -> Suite:
    """Read one suite.

    Raises:
        ConfigError: the file is not a suite; the message names the file, the expectation and what is accepted.
    """
    try:
        text = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from None
    if isinstance(text, dict) and "expectation_suite_name" in text:
        raise ConfigError(
            f"{path} is a suite from before Great Expectations 1.0; save it with 1.x, which writes `name` and `type`"
        )
    try:
        declared = SuiteFile.model_validate(text)
    except ValidationError as error:
        raise ConfigError(f"{path}: {one_line(error, model=SuiteFile)}") from None
    suite = Suite(table, path, declared, _ids(declared, path))
    by_row: list[RowExpectation | None] = []
    for number, expectation in enumerate(declared.expectations):
        _check_known(suite, number, expectation)
        by_row.append(suite.as_one_of(EXPECTATIONS, number))
    return replace(suite, by_row=tuple(by_row))


def refuse_names(suite: Suite, names: Iterable[str]) -> None:
    """Refuse a suite with a rule that has one of these names.

    Raises:
        ConfigError: a rule has such a name.
    """
    for name in names:
        if name in suite.ids:
            raise ConfigError(
                f"{suite.at(suite.ids.index(name))}: {name} is the name of a rule of the log format's columns; use "
                "another meta.rule"
            )


def _check_known(suite: Suite, number: int, expectation: Declared) -> None:
    """Refuse types that Great Expectations does not have, and arguments with a $PARAMETER placeholder."""
    if expectation.type not in EXPECTATIONS and not _exists(expectation.type):
        raise ConfigError(
            f"{suite.at(number)}: there is no expectation {shown(expectation.type)} in Great Expectations; correct the "
            f"type. These types can judge a single row: {', '.join(sorted(EXPECTATIONS))}"
            f"{did_you_mean(expectation.type, EXPECTATIONS)}"
        )
    for key, value in expectation.arguments.items():
        if isinstance(value, dict) and "$PARAMETER" in value:
            raise ConfigError(
                f"{suite.at(number)}: {key} is a parameter, which oncelake does not fill; write its value"
            )


def _exists(name: str) -> bool:
    """Return True if Great Expectations has an expectation, without importing the library, which takes seconds."""
    spec = importlib.util.find_spec("great_expectations")
    places = spec.submodule_search_locations if spec else None
    core = [Path(place) / "expectations" / "core" for place in places or ()]
    return name.isidentifier() and any((directory / f"{name}.py").is_file() for directory in core)


def _ids(declared: SuiteFile, path: Path) -> tuple[str, ...]:
    """Return a name for every expectation: its `meta.rule`, or its type and columns with a number for duplicates."""
    ids: list[str] = []
    seen: Counter[str] = Counter()
    for expectation in declared.expectations:
        own = (expectation.meta or {}).get("rule")
        if own is not None and (str(own) in ids or not str(own)):
            raise ConfigError(
                f"{path}: meta.rule {shown(str(own))} is empty or used twice; give each expectation a different one"
            )
        if own in FORMAT_RULES:
            raise ConfigError(
                f"{path}: meta.rule {shown(own)} is the name of a rule of the log format; use none of these names: "
                f"{', '.join(FORMAT_RULES)}"
            )
        name = str(own) if own is not None else _name(expectation)
        seen[name] += 1
        ids.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return tuple(ids)


def _name(declared: Declared) -> str:
    what = declared.type.removeprefix("expect_").removeprefix("column_").removeprefix("pair_")
    what = what.removeprefix("values_to_").removeprefix("value_")
    return f"{what}({', '.join(declared.columns)})"
