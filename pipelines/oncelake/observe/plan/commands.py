"""The commands that a run does not do by itself: what applies a changed configuration to the rows that are there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from oncelake.common.errors import SourceError
from oncelake.common.lake import BRONZE, QUARANTINE, SILVER
from oncelake.common.table_rows import TableRows
from oncelake.common.wording import count_of
from oncelake.engine.chain import Chain, StageState
from oncelake.engine.graph import Stage
from oncelake.engine.late_columns import late_columns
from oncelake.engine.rebuild import served_from, stages_from
from oncelake.engine.source_rebuild import whole_reason
from oncelake.observe.plan.changes import StageChange
from oncelake.observe.plan.work import Estimates, Work


@dataclass(frozen=True)
class Command:
    """A command that a run does not do by itself.

    Attributes:
        command: the command.
        what: what it does.
        work: what it reads; None if it is not known.
        needed: True if the run is refused without it.
    """

    command: str
    what: str
    work: Work | None = None
    needed: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the command for JSON."""
        work = self.work.to_dict() if self.work is not None else None
        return {"command": self.command, "what": self.what, "needed": self.needed, "work": work}


def rebuilding(stage: Stage) -> str:
    """Return the command that builds a stage's tables again."""
    return f"oncelake rebuild {stage.name}"


def rebuild(
    chain: Chain,
    stage: Stage,
    estimates: Estimates | None = None,
    states: Mapping[str, StageState] | None = None,
) -> Command:
    """Return the command that builds a gold table by its new declaration."""
    served = served_from(chain, stage)
    after = f", then fills {', '.join(other.name for other in served)} again" if served else ""
    work = estimates.together([stage], states or {}) if estimates is not None else None
    return Command(rebuilding(stage), f"builds {stage.name} beside the old one{after}", work, True)


def offers(
    chain: Chain,
    changes: Sequence[StageChange],
    estimates: Estimates | None = None,
    states: Mapping[str, StageState] | None = None,
) -> list[Command]:
    """Return the commands that apply changed rules to the rows that are there."""
    commands = []
    for change in (change for change in changes if change.kind == "changed" and _has_rules(change)):
        layer = change.stage.partition(".")[0]
        if layer not in (BRONZE.layer, SILVER.layer):
            continue
        stages = stages_from(chain.stages, change.stage)
        if layer == SILVER.layer:
            lines = estimates.of_table(QUARANTINE) if estimates is not None else None
            if lines is None or lines.count:
                work = replace(lines, unit="rows", versions=None, bytes=None) if lines is not None else None
                commands.append(Command("oncelake quarantine replay", "tries the lines in quarantine again", work))
        known = estimates.together(stages, states or {}) if estimates is not None else None
        alone = _changed_source(chain, change)
        of_source = f" --source {alone}" if alone is not None else ""
        tables = (
            f"makes {f'the rows of {alone} in ' if alone is not None else ''}{change.stage} and what follows it again"
        )
        commands.append(Command(f"oncelake rebuild {change.stage}{of_source}", tables, None if alone else known))
    return commands


def _changed_source(chain: Chain, change: StageChange) -> str | None:
    """Return the one source of several whose format changed and nothing else; None if its rows cannot be made alone."""
    parts = {difference.key.partition(".")[0] for difference in change.differences}
    name = next(iter(parts)).removeprefix("format of ") if len(parts) == 1 else ""
    return name if name in chain.settings.by_name and whole_reason(chain, name) is None else None


def late_column_commands(chain: Chain) -> list[Command]:
    """Return the commands that give lines of silver the columns that a new gold table reads, as far as it is known."""

    def session() -> SparkSession:
        if chain.spark is None:
            raise SourceError("silver can only be read with Spark")
        return chain.spark

    try:
        columns = list(late_columns(chain, TableRows(session)))
    except SourceError:
        return []
    return [
        Command(
            late.command,
            f"gives {count_of(late.rows, 'row')} of {late.source} the column {late.column}, which gold.{late.gold} "
            f"reads; the format declares it since version {late.before} of silver",
        )
        for late in columns
    ]


def _has_rules(change: StageChange) -> bool:
    """Return True if the rules of a stage changed, and not only the place of its source."""
    return any(not difference.key.startswith("source.") for difference in change.differences) or bool(change.note)
