"""The history of the rules that made a table's rows, from its commits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from oncelake.common.errors import ConfigError
from oncelake.common.wording import count_of, did_you_mean, utc
from oncelake.engine.chain import Chain
from oncelake.engine.rules import read_rules
from oncelake.exactly_once.delta_log import ChainCommit


@dataclass(frozen=True)
class RulesSpan:
    """Consecutive commits of a table whose rows the same rules made.

    Attributes:
        table: the table's name, such as `silver.access_log`.
        fingerprint: the hash of the rules that the commits record; empty if no rules decide the table's rows.
        versions: the table's first and last version of them.
        batches: the first and the last batch ID.
        begun: when the first of them was committed, in milliseconds since 1970.
        ended: when the last of them was committed, in milliseconds since 1970.
        rows: the rows that they appended, inserted or updated.
        rules: the rules with this fingerprint, without defaults: the log formats, time limits and suite rules of
            silver, or the declaration of a gold table; None if the lake has no record of them.
    """

    table: str
    fingerprint: str
    versions: tuple[int, int]
    batches: tuple[int, int]
    begun: int
    ended: int
    rows: int
    rules: Sequence[Mapping[str, Any]] | None

    def to_dict(self) -> dict[str, Any]:
        """Return the span for JSON; `begun_at` and `ended_at` repeat the times as ISO 8601 in UTC."""
        return {**asdict(self), "begun_at": utc(self.begun), "ended_at": utc(self.ended)}


def rule_history(chain: Chain, table: str | None = None) -> list[RulesSpan]:
    """Return the spans of the lake's tables, in data order, the newest of a table first.

    It reaches back as far as Delta keeps the tables' logs.

    Args:
        chain: the chain and where it is stored.
        table: one table; None for all.

    Raises:
        ConfigError: the lake has no such table.
    """
    tables = {str(target.table): target.table for stage in chain.stages for target in stage.writes}
    if table is not None and table not in tables:
        raise ConfigError(
            f"there is no table {table!r}; the tables are {', '.join(tables)}{did_you_mean(table, tables)}"
        )
    return [span for name in tables if table in (None, name) for span in _spans(chain, name, tables)]


def _spans(chain: Chain, name: str, tables: Mapping[str, Any]) -> Iterator[RulesSpan]:
    newest_first = chain.commit_log(tables[name], at_one_moment=True).newest_first()
    commits = (commit for commit, stands in newest_first if stands and isinstance(commit, ChainCommit))
    for fingerprint, group in groupby(commits, key=lambda commit: commit.metadata.rules):
        span = list(group)
        last, first = span[0], span[-1]
        known = read_rules(chain.lake, chain.spark, fingerprint)
        yield RulesSpan(
            name,
            fingerprint,
            (first.version, last.version),
            (first.metadata.batch_id, last.metadata.batch_id),
            first.timestamp,
            last.timestamp,
            sum(commit.rows_changed for commit in span),
            known["rules"] if known else None,
        )


def history_lines(spans: Sequence[RulesSpan], *, rules: bool) -> Iterator[str]:
    """Yield the spans as text.

    Args:
        spans: the spans.
        rules: True to show the rules of each fingerprint, as YAML.
    """
    for name, group in groupby(spans, key=lambda span: span.table):
        yield name
        for span in group:
            versions, batches = (_range(*numbers) for numbers in (span.versions, span.batches))
            begun, ended = map(_time, (span.begun, span.ended))
            when = begun if begun == ended else f"{begun} to {ended}"
            yield f"  {span.fingerprint or 'no rules'}  versions {versions}  batches {batches}  {when}  " + count_of(
                span.rows, "row"
            )
            if rules and span.fingerprint:
                yield from (f"    {line}" for line in _yaml(span.rules))


def _range(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def _time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _yaml(rules: Sequence[Mapping[str, Any]] | None) -> list[str]:
    import yaml  # noqa: PLC0415 - only for this output

    if rules is None:
        return ["not known: no run has written these rules down"]
    return [line for rule in rules if rule for line in yaml.safe_dump(rule, sort_keys=False).splitlines()]
