"""Validation of a table with Great Expectations: a Checkpoint over a suite, with Data Docs.

The library takes seconds to load and validates with several Spark jobs, so a stream does not use it. In a stream, the
split and the gate apply the same rules.
"""

import html
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from oncelake.common.errors import ConfigError, reason
from oncelake.observe.audit.results import Result, observed
from oncelake.quality.split import FIELDS
from oncelake.quality.suite import Suite

if TYPE_CHECKING:
    from great_expectations.data_context.data_context.abstract_data_context import AbstractDataContext

_CONNECT = "pyspark.sql.connect"
# The column that identifies a row: as an argument for `trace`, or by its key.
LINE = "_line"
# At most this many rows are recorded per expectation.
HANDFUL = 20
# COMPLETE would load every row that breaks an expectation into this process.
_FORMAT = {
    "result_format": "SUMMARY",
    "partial_unexpected_count": HANDFUL,
    "unexpected_index_column_names": [LINE],
}


@dataclass(frozen=True)
class Auditor:
    """Great Expectations with a directory for its results.

    Attributes:
        root: the directory of its context, results and Data Docs.
    """

    root: Path

    @property
    def docs(self) -> Path:
        """The start page of Data Docs."""
        return self.root / "gx" / "uncommitted" / "data_docs" / "local_site" / "index.html"

    def judge(self, suite: Suite, frame: DataFrame) -> list[Result]:
        """Validate a table's rows, and add the results to Data Docs.

        Args:
            suite: the expectations.
            frame: the rows, with a column LINE that identifies each row.

        Raises:
            ConfigError: Great Expectations refuses the suite; the message names the expectation and the reason.
        """
        results = self._run(suite, frame)
        by_rule = {result.expectation_config.meta["rule"]: result for result in results}
        return [_result(suite, number, by_rule[name]) for number, name in enumerate(suite.ids)]

    def _run(self, suite: Suite, frame: DataFrame) -> Sequence[Any]:
        context, gx, name = _context(self.root), library(), str(suite.table)
        from great_expectations.checkpoint.checkpoint import Checkpoint  # noqa: PLC0415

        source = context.data_sources.add_or_update_spark(name, persist=False)
        batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("rows")
        rules = context.suites.add_or_update(_suite(suite))
        definition = gx.ValidationDefinition(name=name, data=batch, suite=rules)
        checkpoint = Checkpoint(
            name=name,
            validation_definitions=[context.validation_definitions.add_or_update(definition)],
            result_format=_FORMAT,
        )
        run = context.checkpoints.add_or_update(checkpoint).run(batch_parameters={"dataframe": frame})
        (results,) = run.run_results.values()
        self._write_docs(context, list(run.run_results))
        return results.results

    def _write_docs(self, context: "AbstractDataContext", stored: list[Any]) -> None:
        """Add results to Data Docs, with values escaped: the pages treat table values as HTML otherwise."""
        for identifier in stored:
            path = (self.root / "gx" / "uncommitted" / "validations").joinpath(*identifier.to_tuple())
            path = path.with_name(f"{path.name}.json")
            validation = json.loads(path.read_text(encoding="utf-8"))
            for result in validation["results"]:
                result.update({key: _escaped(result.get(key)) for key in ("result", "exception_info")})
            path.write_text(json.dumps(validation), encoding="utf-8")
        context.build_data_docs(resource_identifiers=stored)


def prepared(frame: DataFrame, suite: Suite) -> DataFrame:
    """Return the rows with map keys as struct fields, because Great Expectations cannot name a map's keys."""
    names = {name.partition(".")[2] for expectation in suite.declared.expectations for name in expectation.columns}
    keys = sorted(key for key in names if key)
    if not keys or FIELDS not in frame.columns:
        return frame
    return frame.withColumn(FIELDS, F.struct(*(F.col(FIELDS)[key].alias(key) for key in keys)))


@cache
def library() -> Any:
    """Import Great Expectations, which takes seconds."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # before the import: otherwise it reports every use to its makers
    # It looks for Spark Connect. If one of its packages is missing, PySpark ends a program that has no file then.
    is_barred = _CONNECT not in sys.modules  # guard: audit-without-spark-connect
    if is_barred:
        sys.modules[_CONNECT] = cast(Any, None)
    try:
        import great_expectations  # noqa: PLC0415
    finally:
        if is_barred:
            del sys.modules[_CONNECT]
    return great_expectations


@cache
def _context(root: Path) -> "AbstractDataContext":
    """Open the context of a directory; one per process, because each context keeps the data it has seen."""
    gx = library()
    from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: PLC0415

    root.mkdir(parents=True, exist_ok=True)
    context: AbstractDataContext = gx.get_context(mode="file", project_root_dir=root)
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    context.variables.save()
    return context


def _suite(suite: Suite) -> Any:
    from great_expectations.core import ExpectationSuite  # noqa: PLC0415

    gx_suite = ExpectationSuite(name=str(suite.table))
    for number, rule in enumerate(suite.declared.expectations):
        config = {"type": rule.type, "kwargs": rule.kwargs, "severity": rule.severity, "notes": rule.notes}
        config["meta"] = {**(rule.meta or {}), "rule": suite.ids[number]}
        try:
            # its own suite: in a shared one it would replace an rule of the same type on the same column
            alone = ExpectationSuite(name=str(suite.table))
            alone.add_expectation_configurations([_configuration(config)])
        except Exception as error:
            raise ConfigError(f"{suite.at(number)}: {reason(error)}") from None
        gx_suite.expectations.extend(alone.expectations)
    return gx_suite


def _configuration(config: Mapping[str, Any]) -> Any:
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration  # noqa: PLC0415

    return ExpectationConfiguration(**{key: value for key, value in config.items() if value is not None})


def _result(suite: Suite, number: int, evaluation: Any) -> Result:
    declared, result = suite.declared.expectations[number], evaluation.result or {}
    rows = result.get("partial_unexpected_index_list") or []
    return Result(
        rule=suite.ids[number],
        type=declared.type,
        columns=declared.columns,
        severity=declared.severity,
        success=bool(evaluation.success),
        rows=result.get("element_count"),
        unexpected=result.get("unexpected_count"),
        observed=observed(result.get("observed_value")),
        lines=[str(row[LINE]) for row in rows],
        error=next(errors(evaluation.exception_info), None),
    )


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return html.escape(value)
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return {_escaped(key): _escaped(item) for key, item in value.items()} if isinstance(value, dict) else value


def errors(info: Any) -> Iterator[str]:
    """Yield why an expectation could not be evaluated, from either of the library's two formats."""
    for part in [info, *info.values()] if isinstance(info, dict) else []:
        if isinstance(part, dict) and part.get("raised_exception"):
            yield reason(Exception(part.get("exception_message")))
