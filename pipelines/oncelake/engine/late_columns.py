"""Find columns that a new gold table reads and that lines of silver lack, as their format declared them later."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oncelake.common.lake import SILVER, Table
from oncelake.common.table_rows import TableRows
from oncelake.common.wording import count_of
from oncelake.engine.chain import Chain
from oncelake.engine.differences import formats_by_source
from oncelake.engine.rules import newest_rules
from oncelake.engine.source_rebuild import whole_reason
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.exactly_once.delta_sources import table_ids
from oncelake.gold.declaration import GoldTable
from oncelake.silver.rules import SOURCE_NAME
from oncelake.silver.schema import SOURCE

_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
# The log formats of sources, by the sources' names.
_Formats = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class LateColumn:
    """A column that a new gold table reads, and that lines of a source lack.

    Attributes:
        gold: the name of the gold table.
        column: the column.
        source: the source whose format declares the column now.
        rows: how many rows of silver of this source have no value in the column.
        before: the version of silver from which on the format had the column.
        command: the command that makes these rows again.
    """

    gold: str
    column: str
    source: str
    rows: int
    before: int
    command: str

    def __str__(self) -> str:
        """Return the finding and the way out as sentences."""
        return (
            f"gold.{self.gold} reads {self.column}, which {count_of(self.rows, 'row')} of {self.source} in {SILVER} "
            f"lack: those from before version {self.before} were made by a format without it. To make them again by "
            f"today's format: {self.command}"
        )


def late_columns(chain: Chain, rows: TableRows) -> Iterator[LateColumn]:
    """Yield the columns of gold tables that do not exist yet, as far back as the log of silver reaches.

    Args:
        chain: the chain.
        rows: answers queries over silver.
    """
    new = [name for name in chain.settings.gold if chain.commit_log(Table("gold", name)).newest() is None]
    formats = list(_formats(chain)) if new else []
    if not formats:
        return
    used = {name: _words(chain.settings.gold[name]) for name in new}
    for source, parser in chain.silver.parsers.items():
        for column in sorted(field.name for field in parser.column_fields):
            readers = [name for name in new if column.lower() in used[name]]
            before = _first_with(formats, source, column) if readers else None
            lacking = _without_value(chain, rows, source, column) if before is not None else 0
            if before is not None and lacking:
                command = _command(chain, source)
                yield from (LateColumn(name, column, source, lacking, before, command) for name in readers)


def _words(declared: GoldTable) -> set[str]:
    """Return the words of a declaration's expressions outside of texts; each name of a column is one of them."""
    texts = [declared.where or "", *declared.by.values(), *declared.measures.values()]
    return {word.lower() for text in texts for word in re.findall(r"\w+", _TEXT.sub(" ", text))}


def _formats(chain: Chain) -> Iterator[tuple[int, _Formats]]:
    """Yield the versions of silver that a batch wrote, newest first, each with the log formats of the sources."""
    known: dict[str, _Formats] = {}
    for commit, stands in chain.commit_log(SILVER).newest_first():
        if not stands or not isinstance(commit, ChainCommit):
            continue
        rules = commit.metadata.rules
        if rules not in known:
            recorded = newest_rules(chain.lake, chain.spark, rules)
            sources = [Table.named(name).name for name in table_ids(commit.metadata.source)]
            known[rules] = formats_by_source(recorded, sources) if recorded is not None else {}
        yield commit.version, known[rules]


def _first_with(formats: Sequence[tuple[int, _Formats]], source: str, column: str) -> int | None:
    """Return silver's first version of a format of a source with a column; None if no earlier one is known."""
    first_with = formats[0][0] + 1
    for version, by_source in formats:
        declared = by_source.get(source) or (by_source.get("1") if len(by_source) == 1 else None)
        if declared is not None and column not in (declared.get("columns") or {}):
            return first_with
        first_with = version
    return None


def _without_value(chain: Chain, rows: TableRows, source: str, column: str) -> int:
    """Return how many rows of silver of a source have no value in a column; all rows if there is no such column."""
    at, log = chain.lake.at(SILVER), chain.commit_log(SILVER)
    names = log.columns()
    of_source = f"{SOURCE_NAME} = '{source}'" if SOURCE.name in names else "TRUE"
    lacks = f"t.{column} IS NULL" if column in names else "TRUE"
    query = f"SELECT count(*) AS lacking FROM {{rows}} t WHERE {of_source} AND {lacks}"
    (answer,) = rows.records(query, {"rows": (at, None)})
    return int(answer["lacking"])


def _command(chain: Chain, source: str) -> str:
    return f"oncelake rebuild silver{f' --source {source}' if whole_reason(chain, source) is None else ''}"
