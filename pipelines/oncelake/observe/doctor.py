"""`doctor`: the state of each stage, and everything else that stops a run from starting."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import SparkSession

from oncelake.common.errors import OncelakeError, SourceError
from oncelake.common.lake import Table
from oncelake.common.spark.internals import missing_classes
from oncelake.common.spark.s3 import check_lake
from oncelake.engine.chain import Chain, StageState
from oncelake.engine.log_retention import fading
from oncelake.engine.preflight import no_hard_links, other_log_store, refused_root, refused_tables
from oncelake.engine.sources import missing_key, refused_change, stands_alone, unreadable
from oncelake.engine.start_gate import unfinished
from oncelake.observe.status import StageStatus, ahead, away_status, stage_status
from oncelake.sources.directory.bronze_files import recorded_sizes

# Returns the session; starts Spark if there is none yet.
Session = Callable[[], SparkSession]


@dataclass(frozen=True)
class DoctorResult:
    """The states of the stages of a lake.

    Attributes:
        stages: the status of each stage, in data order.
        begun: why no run may start although each stage could, and what to do: an unfinished rebuild or replay, a table
            or a source that does not fit the settings, a masking key or a directory of logs that is missing; None if
            there is nothing.
        warnings: problems that do not stop a run.
    """

    stages: list[StageStatus]
    begun: str | None
    warnings: list[str]

    @property
    def may_start(self) -> bool:
        """Return True if a run may start."""
        return self.begun is None and all(stage.may_start for stage in self.stages)


def diagnose_lake(chain: Chain, session: Session) -> DoctorResult:
    """Look at each stage, and at what else a start depends on. Change nothing.

    Args:
        chain: the chain.
        session: starts Spark, if an ingested file has changed or code of the user's own is declared.
    """
    lake = chain.lake
    warnings = [*other_log_store(lake, chain.settings.spark), *no_hard_links(lake), *fading(chain), *missing_classes()]
    warnings += [warning for kind in chain.kinds.values() for warning in kind.warnings()]
    damages = ((target.table, chain.damage(target.table)) for stage in chain.stages for target in stage.writes)
    warnings += [f"{damage.warning_of(table)}; the next run sets it aside" for table, damage in damages if damage.spare]
    rows, states = [], []
    for row, state in statuses(chain):
        rows.append(row if state is None else _with_details(row, state, chain, session))
        states += [state] if state is not None else []
    return DoctorResult(rows, _begun(chain, states, session), warnings)


def statuses(chain: Chain) -> Iterator[tuple[StageStatus, StageState | None]]:
    """Yield the status and state of each stage; no state if one source of several does not answer."""
    for stage in chain.stages:
        try:
            state = chain.stage_state(stage)
            yield stage_status(state), state
        except SourceError as error:
            if not stands_alone(chain, stage):
                raise
            yield away_status(chain, stage, error), None


def _with_details(row: StageStatus, state: StageState, chain: Chain, session: Session) -> StageStatus:
    """Return a status with the old sizes of files that have changed; Spark is used only if one has."""
    details = state.source.details(partial(_recorded_sizes, chain, session, state.stage.tables[0]))
    return row if details is None else replace(row, warnings=[*ahead(row), *details])


def _recorded_sizes(chain: Chain, session: Session, bronze: Table, paths: Collection[str]) -> Mapping[str, int]:
    exists = chain.commit_log(bronze).newest() is not None
    return recorded_sizes(session(), chain.lake.at(bronze), paths) if exists else {}


def _begun(chain: Chain, states: list[StageState], session: Session) -> str | None:
    """Return why no run may start although each stage could; None if there is nothing."""
    return (
        next(refusals(chain, states), None)
        or _refused_store(chain)
        or _unreadable(chain)
        or _refused_code(chain, session)
    )


def refusals(chain: Chain, states: Sequence[StageState]) -> Iterator[str]:
    """Yield why no run may start although each stage could and each source can be read, as known without Spark."""
    answering = replace(chain, stages=tuple(state.stage for state in states))
    yield from filter(
        None, (unfinished(chain), refused_root(chain.lake), refused_change(answering), missing_key(chain))
    )
    yield from refused_tables(answering)  # guard: doctor-checks-tables
    served = ((state.stage.served, state) for state in states)
    yield from filter(
        None, (sink.counted_otherwise(state.first.last, state.stage.rules) for sink, state in served if sink)
    )


def _refused_store(chain: Chain) -> str | None:
    """Return why two drivers are not safe on the lake's store; None if they are, or Spark was not started."""
    try:
        if chain.spark is not None:
            check_lake(chain.spark, chain.lake)
    except OncelakeError as error:
        return str(error)
    return None


def _unreadable(chain: Chain) -> str | None:
    """Return which sources cannot be read, as far as this is known without Spark; None if all can."""
    try:
        failed = unreadable(chain)
    except OncelakeError as error:
        return str(error)
    return "; ".join(f"{name}: {why}" for name, why in failed.items()) or None


def _refused_code(chain: Chain, session: Session) -> str | None:
    """Return why the user's own code cannot be used; None if it can, or there is none."""
    try:
        if chain.silver.transform is not None:
            chain.silver.transform_fields(session())
    except OncelakeError as error:  # of the code, or of Spark's start
        return str(error)
    return None
