"""Plan the next run: what changed, what it builds, what is refused, and what stays as it is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.engine.chain import Chain, StageState
from oncelake.engine.graph import DECLARATION, Stage
from oncelake.engine.preflight import (
    built_as,
    is_changed,
    preflight,
    refuse_another_order,
    refuse_other_declaration,
    refuse_other_types,
)
from oncelake.engine.rebuild import served_from
from oncelake.engine.sources import is_comparable, refused_after, stands_alone, unreadable
from oncelake.engine.start_gate import block_reason, waits
from oncelake.exactly_once.checkpoint import Checkpoint
from oncelake.exactly_once.state import Diagnosis, State
from oncelake.observe.doctor import refusals, statuses
from oncelake.observe.openlineage.follow import check_installed
from oncelake.observe.plan.changes import StageChange, changes_after, changes_of
from oncelake.observe.plan.commands import Command, late_column_commands, offers, rebuild, rebuilding
from oncelake.observe.plan.sample import LineSample, take_sample
from oncelake.observe.plan.work import Estimates, Work
from oncelake.observe.report.versions import masked
from oncelake.observe.status import StageStatus

Action = Literal["go on", "build", "refused", "wait"]


@dataclass(frozen=True)
class StagePlan:
    """What a run does with a stage.

    Attributes:
        stage: the stage's name.
        action: `go on` from its position, `build` its table from all input, `refused`, or `wait` for its database.
        work: what it reads now; None if it reads nothing new.
    """

    stage: str
    action: Action
    work: Work | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan of the stage for JSON."""
        work = self.work.to_dict() if self.work is not None else None
        return {"stage": self.stage, "action": self.action, "work": work}


@dataclass(frozen=True)
class Refusal:
    """Why a run is refused.

    Attributes:
        stage: the stage; None if it is about the lake or the sources as a whole.
        reason: why, and what to do.
        command: the command that builds the table again and so solves it; None if there is more to decide.
        alone: True if a run leaves out only this source, and goes on with the others.
    """

    stage: str | None
    reason: str
    command: str | None = None
    alone: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the refusal for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Plan:
    """What a run does with a configuration.

    Attributes:
        lake: the lake's root, or its catalog.
        changes: what is not as the lake records it, or as in the other configuration.
        stages: what a run does with each stage.
        refused: why a run is refused, each with what to do.
        commands: what a run does not do by itself.
        unchecked: what only a run, or `--sample`, checks.
        against: the other configuration; None for the lake.
        sample: which lines the rules would move; None without a sample.
    """

    lake: str
    changes: Sequence[StageChange]
    stages: Sequence[StagePlan]
    refused: Sequence[Refusal] = ()
    commands: Sequence[Command] = ()
    unchecked: Sequence[str] = ()
    against: str | None = None
    sample: LineSample | None = None

    @property
    def holds(self) -> bool:
        """Return True if a run is not refused."""
        return not self.refused

    @property
    def starts(self) -> bool:
        """Return True if a run starts, perhaps without a source."""
        return all(refusal.alone for refusal in self.refused)

    @property
    def rebuilt(self) -> list[str]:
        """The gold tables whose rebuild lets a run start; none if a run is refused for another reason too."""
        if not all(refusal.command for refusal in self.refused):
            return []
        return [command.command.rpartition(" ")[2] for command in self.commands if command.needed]

    @property
    def is_new(self) -> bool:
        """Return True if the lake has no table yet."""
        return self.against is None and all(stage.action == "build" for stage in self.stages)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan for JSON."""
        return {
            "lake": self.lake,
            "against": self.against,
            "changes": [change.to_dict() for change in self.changes],
            "stages": [stage.to_dict() for stage in self.stages],
            "refused": [refusal.to_dict() for refusal in self.refused],
            "commands": [command.to_dict() for command in self.commands],
            "unchecked": [*self.unchecked],
            "sample": self.sample.to_dict() if self.sample is not None else None,
        }


def plan_of(chain: Chain, *, sample: int = 0) -> Plan:
    """Return the plan for a lake. Change nothing.

    Args:
        chain: the chain; with a session, if `sample` is given.
        sample: also make the checks that need Spark, and try the rules on this many lines.
    """
    states: dict[str, StageState] = {}
    rows: dict[str, StageStatus] = {}
    for row, state in statuses(chain):
        rows[row.stage] = row
        if state is not None:
            states[row.stage] = state
    refused = _refused(chain, rows, states)
    changes, estimates = changes_of(chain, [*states.values()]), Estimates(chain)
    new = {change.stage for change in changes if change.kind == "new"}
    stopped = {refusal.stage for refusal in refused}
    stages = [
        _of_stage(stage, rows[stage.name], states.get(stage.name), estimates, is_new=stage.name in new)
        if stage.name not in stopped
        else StagePlan(stage.name, "refused")
        for stage in chain.stages
    ]
    commands = [
        *(rebuild(chain, stage, estimates, states) for stage in chain.stages if _is_changed(chain, stage)),
        *offers(chain, changes, estimates, states),
        *late_column_commands(chain),
    ]
    plan = Plan(_place(chain), changes, stages, refused, commands, _unchecked(chain))
    shown: Plan = masked(_with_spark(plan, chain, sample) if sample else plan)
    return shown


def _with_spark(plan: Plan, chain: Chain, sample: int) -> Plan:
    """Return the plan with what only Spark can check, and a sample of the lines."""
    assert chain.spark is not None, "given for a sample"
    refused, tables = [*plan.refused], [target.table for stage in chain.stages for target in stage.writes]
    tried = None
    try:
        # what the tables refuse is known already, and would hide what comes after it
        preflight(chain.spark, chain, emptied=tables if refused else ())  # guard: plan-checks-with-spark
        tried = take_sample(chain, chain.spark, sample)
    except OncelakeError as error:
        refused.append(Refusal(None, str(error)))
    return replace(plan, refused=refused, unchecked=(), sample=tried)


def plan_after(chain: Chain, before: Chain, against: Path) -> Plan:
    """Return the plan for a lake that was filled by another configuration, as far as the two of them say.

    Args:
        chain: the chain.
        before: the chain of the other configuration.
        against: the file of the other configuration.
    """
    elsewhere = chain.settings.lake != before.settings.lake
    refused = [Refusal(None, reason) for reason in _not_installed(chain)]
    refused += [] if elsewhere else _refused_after(chain, before)
    stopped = {refusal.stage for refusal in refused}
    changes = changes_after(chain, before)
    new = {change.stage for change in changes if change.kind == "new"}
    stages = [_after(stage.name, stopped, new, is_built=elsewhere) for stage in chain.stages]
    rebuilt = [
        stage for stage in chain.stages if any(stage.name == refusal.stage and refusal.command for refusal in refused)
    ]
    commands = [*(rebuild(chain, stage) for stage in rebuilt), *(() if elsewhere else offers(chain, changes))]
    unchecked = [*_unchecked(chain), "what the lake and the sources hold: oncelake plan without --against"]
    shown: Plan = masked(Plan(_place(chain), changes, stages, refused, commands, unchecked, str(against)))
    return shown


def _after(stage: str, stopped: set[str | None], new: set[str], *, is_built: bool) -> StagePlan:
    if stage in stopped:
        return StagePlan(stage, "refused")
    return StagePlan(stage, "build" if is_built or stage in new else "go on")


def _place(chain: Chain) -> str:
    return chain.lake.catalog or chain.lake.root


def _not_installed(chain: Chain) -> list[str]:
    try:
        check_installed(chain.settings.openlineage)
    except ConfigError as error:
        return [str(error)]
    return []


def _is_changed(chain: Chain, stage: Stage) -> bool:
    return stage.layer == "gold" and is_changed(chain, stage.tables[0].name)


def _refused(chain: Chain, rows: Mapping[str, StageStatus], states: Mapping[str, StageState]) -> list[Refusal]:
    """Return why a run is refused, as far as this is known without Spark."""
    refused = []
    for stage in chain.stages:
        row, state = rows[stage.name], states.get(stage.name)
        if not row.may_start and (state is None or not waits(state)):
            refused.append(Refusal(stage.name, row.detail, alone=stands_alone(chain, stage)))
    refused += [*_of_changed_gold(chain, states), *_unreadable(chain)]
    known = {refusal.reason for refusal in refused}
    others = [*refusals(chain, [*states.values()]), *_not_installed(chain)]
    # guard: plan-refuses-as-run
    refused += [Refusal(None, reason) for reason in others if reason not in known]
    return refused


def _unreadable(chain: Chain) -> list[Refusal]:
    try:
        return [Refusal(stage, f"{stage}: {why}", alone=True) for stage, why in unreadable(chain).items()]
    except OncelakeError as error:
        return [Refusal(None, str(error))]


def _of_stage(
    stage: Stage, row: StageStatus, state: StageState | None, estimates: Estimates, *, is_new: bool
) -> StagePlan:
    if state is not None and waits(state):
        return StagePlan(stage.name, "wait")
    if is_new:
        return StagePlan(stage.name, "build", estimates.of_stage(stage, state))
    if not row.backlog:
        return StagePlan(stage.name, "go on")
    reads = ", ".join(map(str, stage.reads)) or "the source"
    return StagePlan(stage.name, "go on", Work(reads, row.backlog, row.backlog_unit))


def _of_changed_gold(chain: Chain, states: Mapping[str, StageState]) -> list[Refusal]:
    """Return the refusals because a gold table was built, or is served, by another declaration."""
    refused = []
    for stage in (stage for stage in chain.stages if _is_changed(chain, stage)):
        name, command = stage.tables[0].name, rebuilding(stage)
        other = partial(refuse_other_declaration, name, chain.settings.gold[name], built_as(chain, name))
        refused += _of_error(stage.name, other, command)
        for served in (served for served in served_from(chain, stage) if served.name in states):
            assert served.served is not None, "a stage that serves"
            otherwise = served.served.counted_otherwise(states[served.name].first.last, served.rules)
            refused += [Refusal(served.name, otherwise, command)] if otherwise else []
    return refused


def _refused_after(chain: Chain, before: Chain) -> list[Refusal]:
    """Return why a run would be refused after another configuration."""
    old = {stage.name: stage for stage in before.stages}
    refused = [*_of_other_sources(chain, before, old)]
    changed = refused_after(chain, before)
    refused += [Refusal(None, changed)] if changed is not None else []
    refused += _of_error("silver", partial(refuse_other_types, chain.silver.added_fields, before.silver.schema))
    built = {name: old[f"gold.{name}"].writes[0].properties[DECLARATION] for name in before.settings.gold}
    for stage in chain.stages:
        name = stage.tables[0].name
        if stage.layer == "gold":
            other = partial(refuse_other_declaration, name, chain.settings.gold[name], built.get(name))
            refused += _of_error(stage.name, other, rebuilding(stage))
        elif stage.served is not None and stage.name in old:
            refused += _of_error(f"gold.{name}", partial(refuse_another_order, chain, stage.served, built.get(name)))
    return refused


def _of_other_sources(chain: Chain, before: Chain, old: Mapping[str, Stage]) -> Iterator[Refusal]:
    """Yield the stages that read another source or table than they did."""
    for stage in (stage for stage in chain.stages if stage.name in old):
        source, diagnosis = chain.source(stage), None
        if is_comparable(chain, stage) and is_comparable(before, old[stage.name]):
            diagnosis = source.trouble(None, None, before.source(old[stage.name]).identity())
        elif stage.served is not None and stage.reads != old[stage.name].reads:
            change = f"positions are of {old[stage.name].reads[0]}, the stage now reads {stage.reads[0]}"
            diagnosis = Diagnosis(State.SOURCE_REPLACED, change)
        if diagnosis is not None:
            path = chain.lake.checkpoint(stage.name)
            yield Refusal(stage.name, block_reason(StageState(stage, path, Checkpoint(), {}, {}, source, diagnosis)))


def _of_error(stage: str, refuse: Callable[[], None], command: str | None = None) -> list[Refusal]:
    try:
        refuse()
    except ConfigError as error:
        return [Refusal(stage, str(error), command)]
    return []


def _unchecked(chain: Chain) -> list[str]:
    """Return what is checked only with Spark."""
    parts = ["log formats", "suites" if chain.suites else "", "expressions of gold tables"]
    parts += ["silver.transform"] if chain.silver.transform is not None else []
    return [f"{', '.join(part for part in parts if part)}: oncelake plan --sample 1000, which starts Spark"]
