"""Compare the declared stages with what the lake records, or with another configuration."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, SecretStr

from oncelake.common.lake import BRONZE, SILVER, Table, bronze_stage
from oncelake.engine.chain import Chain, StageState
from oncelake.engine.differences import Difference, differences, differing_rules, is_format
from oncelake.engine.graph import DECLARATION, Stage
from oncelake.engine.preflight import gold_differences
from oncelake.engine.rules import declared_rules, newest_rules
from oncelake.engine.settings import Settings
from oncelake.engine.sources import is_comparable
from oncelake.exactly_once.checkpoint import position, read_checkpoint
from oncelake.exactly_once.delta_sources import table_ids
from oncelake.exactly_once.positions import in_table

# Sections of settings whose values change no row of a table.
_WITHOUT_ROWS = ("metrics", "openlineage", "alerts", "spark", "run")
# The parts of a source's identity that people configure.
_OF_SOURCE = ("kind", "path", "topic")


@dataclass(frozen=True)
class StageChange:
    """A stage, or a setting beside the stages, that is not as it was.

    Attributes:
        stage: the stage's name; of a setting beside the stages, `settings`.
        kind: what happened to it.
        differences: the keys with another value.
        note: what else there is to say; empty if nothing.
    """

    stage: str
    kind: Literal["new", "changed", "removed"]
    differences: Sequence[Difference] = ()
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the change for JSON."""
        keys = [difference.to_dict() for difference in self.differences]
        return {"stage": self.stage, "kind": self.kind, "keys": keys, "note": self.note}


def changes_of(chain: Chain, states: Sequence[StageState]) -> list[StageChange]:
    """Return what is not as the lake's tables record it.

    Args:
        chain: the chain.
        states: the states of its stages.
    """
    removed = list(_removed(chain))
    declared = {
        name: chain.commit_log(Table.named(name)).properties().get(DECLARATION)
        for name in removed
        if name.startswith("gold.")
    }
    changes = [change for state in states for change in _of_stage(chain, state)]
    changes = [_renamed(chain, change, declared) for change in changes]
    return [*changes, *(StageChange(name, "removed", note=_stays(chain, name)) for name in removed)]


def changes_after(chain: Chain, before: Chain) -> list[StageChange]:
    """Return what differs from the chain of another configuration."""
    old, stages = {stage.name: stage for stage in before.stages}, {stage.name for stage in chain.stages}
    removed = [name for name in old if name not in stages]
    declared = {
        name: stage.writes[0].properties[DECLARATION]
        for name, stage in old.items()
        if name in removed and stage.layer == "gold"
    }
    changes: list[StageChange] = []
    for stage in chain.stages:
        if stage.name not in old:
            changes.append(_renamed(chain, StageChange(stage.name, "new"), declared))
        elif keys := _after(chain, stage, before, old[stage.name]):
            changes.append(StageChange(stage.name, "changed", keys))
    changes += [StageChange(name, "removed", note=_stays(before, name)) for name in removed]
    others = list(_other_settings(chain.settings, before.settings))
    return [*changes, *([StageChange("settings", "changed", others, _effect(others))] if others else [])]


def _of_stage(chain: Chain, state: StageState) -> Iterator[StageChange]:
    stage, last = state.stage, state.first.last
    built = chain.commit_log(stage.tables[0]).properties().get(DECLARATION) if stage.layer == "gold" else None
    if last is None:
        exists = stage.served is None and chain.commit_log(stage.tables[0]).newest() is not None
        if not exists and state.damaged is None and state.diagnosis.may_start:
            yield StageChange(stage.name, "new")
    if built is not None:
        keys, note = gold_differences(chain.settings.gold[stage.tables[0].name], built), ""
    elif last is None or stage.served is not None or last.metadata.rules == stage.rules:
        keys, note = [], ""
    else:
        keys, note = _recorded(chain, state, last.metadata.rules, last.metadata.source)
    if not stage.reads and last is not None:
        keys = [*_of_identity(last.metadata.source, state.source.identity()), *keys]
    if keys or note:
        yield StageChange(stage.name, "changed", keys, note)


def _recorded(
    chain: Chain, state: StageState, fingerprint: str, source: Mapping[str, str]
) -> tuple[list[Difference], str]:
    """Return in which keys the rules of a stage differ from those of its last batch, and what is not known of them."""
    known = newest_rules(chain.lake, chain.spark, fingerprint)
    if known is None and fingerprint:
        return [], "its rules changed; the lake has no record of the old ones"
    before: Sequence[Mapping[str, Any]] = known or ()
    names = [Table.named(name).name for name in table_ids(source)] if SILVER in state.stage.tables else []
    keys = differing_rules(before, declared_rules(state.stage), names, [*chain.settings.by_name])
    same_sources = sorted(names) == sorted(chain.settings.by_name) or not names
    return keys, "the same rules, in the form of another version of oncelake" if same_sources and not keys else ""


def _after(chain: Chain, stage: Stage, before: Chain, old: Stage) -> list[Difference]:
    """Return in which keys a stage differs from that of another configuration."""
    if stage.layer == "gold":
        return gold_differences(chain.settings.gold[stage.tables[0].name], old.writes[0].properties[DECLARATION])
    if stage.served is not None:
        return []
    sources = ([*before.settings.by_name], [*chain.settings.by_name])
    rules = differing_rules(declared_rules(old), declared_rules(stage), *sources)
    if is_comparable(chain, stage) and is_comparable(before, old):
        return [*_of_identity(before.source(old).identity(), chain.source(stage).identity()), *rules]
    return rules


def _of_identity(recorded: Mapping[str, str], now: Mapping[str, str]) -> list[Difference]:
    """Return in which keys a source differs; nothing if what is recorded has another form."""
    old, new = ({key: value for key, value in one.items() if key in _OF_SOURCE} for one in (recorded, now))
    return differences({"source": old}, {"source": new}) if old.keys() == new.keys() else []


def _renamed(chain: Chain, change: StageChange, declared: Mapping[str, str | None]) -> StageChange:
    """Return the change; of a new gold table, with the removed one that has the same declaration."""
    layer, _, name = change.stage.partition(".")
    if change.kind != "new" or layer != "gold":
        return change
    same = [old for old, text in declared.items() if text and not gold_differences(chain.settings.gold[name], text)]
    if not same:
        return change
    return StageChange(
        change.stage, "new", note=f"declared as {same[0]} was; a table keeps its name, so this is a new one"
    )


def _removed(chain: Chain) -> Iterator[str]:
    """Yield the stages that the last run had and the settings no longer have.

    A stage that was removed earlier has not read the newest batch of the table that it read.
    """
    stages, files, root = {stage.name for stage in chain.stages}, chain.checkpoint_files, chain.lake.checkpoints
    for name in _former_sources(chain):
        yield bronze_stage(name)
    for layer in ("gold", "serving"):
        for name in (f"{layer}.{part}" for part in sorted(files.names(f"{root}/{layer}"))):
            if name in stages or not name.partition(".")[2].isidentifier():
                continue
            at = position(read_checkpoint(files, chain.lake.checkpoint(name)).offsets[1] or "")
            if any(_is_in_step(chain, table, at) for table in (SILVER, Table("gold", name.partition(".")[2]))):
                yield name


def _is_in_step(chain: Chain, table: Table, at: str | None) -> bool:
    """Return True if a position is after the last batch of a table."""
    log = chain.commit_log(table)
    last, table_id = log.state().last, log.table_id()
    reached = in_table(at, table_id) if at and table_id else None
    return last is not None and reached is not None and reached.version > last.version


def _former_sources(chain: Chain) -> list[str]:
    """Return the sources that the last batch of silver read by their formats and that the settings no longer have."""
    metadata = chain.commit_log(SILVER).state().metadata
    if metadata is None or not chain.silver.named:
        return []
    known = newest_rules(chain.lake, chain.spark, metadata.rules)
    names = [Table.named(name).name for name in table_ids(metadata.source)]
    former = [name for name in names if name not in chain.settings.by_name]
    formats = sum(map(is_format, known)) if known else 0
    return former if formats > len(names) - len(former) else []


def _stays(chain: Chain, name: str) -> str:
    """Return what becomes of the table of a stage that is removed."""
    layer, _, table = name.partition(".")
    if layer == "serving":
        return "the rows in the database stay as they are, and no run changes them"
    if layer == BRONZE.layer:
        return "its lines stay in bronze, silver and gold; no run reads this source"
    return f"the table {chain.lake.at(Table(layer, table))} stays as it is, and no run adds to it"


def _other_settings(now: Settings, before: Settings) -> Iterator[Difference]:
    """Yield the settings that differ and are no part of a stage's rules."""
    for difference in differences(_values(before, now), _values(now, before)):
        section, _, rest = difference.key.partition(".")
        of_source = rest.partition(".")[2].partition(".")[0] if section == "sources" else None
        is_rule = section in ("gold", "silver") or of_source in ("format", "zone", "inside", "mask", *_OF_SOURCE)
        if not is_rule and difference.key != "quality.expectations":
            yield difference


def _values(settings: Settings, other: Settings) -> dict[str, Any]:
    """Return the settings with their secrets, to compare them; `differences` hides the values.

    Args:
        settings: the settings.
        other: those that they are compared with; a source that only one of them has is left out.
    """
    values = {name: _plain(getattr(settings, name)) for name in type(settings).model_fields if name != "source"}
    sources = {name: source for name, source in settings.by_name.items() if name in other.by_name}
    return {**values, "sources": _plain(sources)}


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _effect(changed: Iterable[Difference]) -> str:
    """Return what the settings beside the stages do to the tables."""
    sections = {difference.key.partition(".")[0] for difference in changed}
    if "lake" in sections:
        return "another place for the tables, which a run fills from the sources"
    if "checkpoints" in sections:
        return "move the checkpoints to the new place before the next run, or write them again: oncelake recover"
    return "" if sections - {*_WITHOUT_ROWS} else "no table changes by these"
