"""Audit of a table: which rows are audited, how each row is identified, and what is recorded."""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common import tables
from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.lake import BRONZE, SILVER, Table, is_local, is_name
from oncelake.common.models import fingerprint
from oncelake.common.tables import read_version
from oncelake.common.wording import count_of, did_you_mean
from oncelake.engine.chain import Chain
from oncelake.observe.audit.audit import LINE, Auditor, prepared
from oncelake.observe.audit.results import RESULTS_TABLE, AuditedRows, Result, last_audited, record
from oncelake.quality.reasons import file_name, line_of
from oncelake.quality.suite import Suite, Suites
from oncelake.silver.parsing.events import by_event
from oncelake.silver.schema import SOURCE

# Tables that only grow: their new rows are in new files.
_GROWING = (BRONZE.layer, SILVER.layer)


@dataclass(frozen=True)
class Audit:
    """The result of an audit of one table.

    Attributes:
        audited: the audited rows.
        results: one result per expectation.
        recorded: True if this audit recorded the results; False if this version and suite were recorded before.
    """

    audited: AuditedRows
    results: Sequence[Result]
    recorded: bool

    @property
    def holds(self) -> bool:
        """Return True if every critical expectation is met."""
        return all(result.success for result in self.results if result.severity == "critical")

    @property
    def heading(self) -> str:
        """The audited rows, in words."""
        since = f", rows since version {self.audited.from_version}" if self.audited.from_version is not None else ""
        again = "" if self.recorded else ", already recorded"
        return f"{self.audited.table}, version {self.audited.version}{since}{again}:"

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as a dict for JSON."""
        audited = {"table": str(self.audited.table), "version": self.audited.version}
        audited["from_version"] = self.audited.from_version
        results = [result.to_dict() for result in self.results]
        return {**audited, "recorded": self.recorded, "holds": self.holds, "results": results}


def chosen_suites(suites: Suites, names: Sequence[str]) -> list[Suite]:
    """Return the suites of the named tables; all suites if none is named.

    Raises:
        ConfigError: there is no such suite.
    """
    known = {str(table): suite for table, suite in suites.items()}
    if not known:
        raise ConfigError("there is no suite; put <layer>.<table>.json into `expectations` next to the configuration")
    for name in names:
        if name not in known:
            raise ConfigError(
                f"there is no suite for {name}; there is one for {', '.join(known)}{did_you_mean(name, known)}"
            )
    return [known[name] for name in names or known]


def docs_place(docs: Path | None, root: str) -> Path:
    """Return the directory of Data Docs: the given one, or one below the lake's root.

    Raises:
        ConfigError: none is given, and the lake is not on this machine.
    """
    if docs is None and not is_local(root):
        raise ConfigError(f"the lake {root} is not on this machine; name a directory for Data Docs with --docs")
    return (docs or Path(root) / "quality" / "audit").absolute()


@dataclass(frozen=True)
class Audits:
    """Audits of the tables of one lake."""

    chain: Chain
    spark: SparkSession
    auditor: Auditor

    def audit_all(
        self,
        suites: Sequence[Suite],
        begin: Callable[[str], AbstractContextManager[object]],
        done: Callable[[Audit], None],
        *,
        new: bool,
    ) -> list[Audit]:
        """Audit the tables of suites, and record the results.

        Args:
            suites: the suites.
            begin: makes the context manager for one audit, from a text about it.
            done: called with each audit as soon as it is finished.
            new: audit only the rows added since the last audit, in tables that only grow.

        Raises:
            ConfigError: Great Expectations refuses a suite, or no run would accept the user's own code.
        """
        self.chain.silver.transform_fields(self.spark)
        audits = []
        for number, suite in enumerate(suites, 1):
            with begin(f"{suite.table}, {number} of {len(suites)}: {count_of(len(suite.ids), 'expectation')}"):
                audits.append(self.audit(suite, new=new))
            done(audits[-1])
        return audits

    def audit(self, suite: Suite, *, new: bool) -> Audit:
        """Audit the newest version of one table, and record the results.

        Args:
            suite: the expectations of the table.
            new: audit only the rows added since the last audit, in a table that only grows.

        Raises:
            OncelakeError: the table does not exist yet.
            ConfigError: Great Expectations refuses the suite.
        """
        table, commit_log = suite.table, self.chain.commit_log(suite.table)
        newest, table_id = commit_log.newest(), commit_log.table_id()
        if newest is None or table_id is None:
            raise OncelakeError(f"there is no table {table} yet. Run: oncelake run")
        results_table = self._path(RESULTS_TABLE), self.chain.commit_log(RESULTS_TABLE)
        # a catalog does not name new files
        growing = new and table.layer in _GROWING and not is_name(self._path(table))
        since = last_audited(self.spark, *results_table, table, table_id) if growing else None
        audited = AuditedRows(table, table_id, newest, since, fingerprint(suite.declared))
        rows = read_version(self.spark, self._path(table), audited.version)
        if since is not None:
            added = [file for version in range(since + 1, newest + 1) for file in commit_log.files_added(version)]
            rows = rows.where(file_name(F.col("_metadata.file_path")).isin([unquote(_name(file)) for file in added]))
        raw_results = self.auditor.judge(suite, prepared(rows.withColumn(LINE, _line(table)), suite))
        results = self._with_lines(raw_results) if table == SILVER else raw_results
        recorded = record(self.spark, *results_table, audited, results)
        return Audit(audited, results, recorded)

    def _with_lines(self, results: list[Result]) -> list[Result]:
        """Replace each row that is shown as JSON of its silver columns by the line it came from."""
        keys = {line for result in results for line in result.lines if line.startswith("{")}
        if not keys:
            return results
        files = sorted({json.loads(line)["file"] for line in keys})
        parsed = by_event(self.chain.silver.parse(self._bronze().where(F.col("file").isin(files)))).select(
            _of_silver().alias("key"), line_of().alias("line")
        )
        lines = {row["key"]: row["line"] for row in parsed.where(F.col("key").isin(sorted(keys))).collect()}
        return [replace(result, lines=[lines.get(line, line) for line in result.lines]) for result in results]

    def _bronze(self) -> DataFrame:
        if not self.chain.silver.named:
            return tables.read(self.spark, self._path(BRONZE))
        kinds = [kind for kind in self.chain.kinds if self.chain.commit_log(kind).newest() is not None]
        parts = (
            tables.read(self.spark, self._path(table)).withColumn(SOURCE.name, F.lit(table.name)) for table in kinds
        )
        return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)

    def _path(self, table: Table) -> str:
        return self.chain.lake.at(table)


def _name(file: str) -> str:
    return file.rpartition("/")[2]


def _line(table: Table) -> Column:
    """Return a column that identifies a row: as an argument for `trace`, or for gold all values of the row."""
    if table.layer == "gold":
        return F.to_json(F.struct("*"))
    return line_of(_of_silver()) if table == SILVER else line_of()


def _of_silver() -> Column:
    """Return the key of a file's line in silver, because silver does not store the line itself."""
    return F.to_json(F.struct("file", F.unix_micros("log_time").alias("micros"), "level", "message"))
