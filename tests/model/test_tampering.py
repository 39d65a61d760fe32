"""After tampering with checkpoints, tables or sources, the chain refuses or its answer is exact; and `recover`
either restores the exact answer or changes nothing."""

from collections import Counter
from collections.abc import Iterator

import pytest

from oncelake.common.errors import StateError
from oncelake.common.lake import QUARANTINE
from tests.model.chain_model import GOLD, STAGES, checkpoint, faults, place, run
from tests.model.exploring import finish, line
from tests.model.process import Process, Texts
from tests.model.recovering import RecoverProcess, recover_all
from tests.model.tampering import is_left_to_prove, tamperings, with_old_checkpoint, without

KINDS = ("kafka", "files")
LOTS = 2


def deeds(kind: str) -> Iterator[tuple[str, Texts]]:
    """Yield every act of tampering on every state of the line; what is the same for both sources is left to one."""
    met = set()
    for state in line(kind, LOTS)[0 if kind == "kafka" else 20 :]:
        for what, texts in tamperings(state.texts):
            key = frozenset(texts.items())
            shared = kind == "files" and not ("bronze" in what or "all" in what or "file:" in what)
            if key not in met and not shared and not is_left_to_prove(state.texts, what):
                met.add(key)
                yield f"{' '.join(state.way)}; {what}", texts


@pytest.mark.parametrize("kind", KINDS)
def test_tampering_is_refused_or_harmless_and_recover_is_exact_or_refuses(kind: str) -> None:
    ends: Counter[str] = Counter()
    for what, texts in deeds(kind):
        left = dict(texts)
        said = finish(left, kind, LOTS + 1)
        ends[said.split(":")[0]] += 1
        assert not said.startswith("wrong"), f"{what}: {said}"
        if said.startswith("StateError"):
            ends[recovered(what, left, kind)] += 1
    assert min(ends["StateError"], ends["exact"], ends["recovered"]) > 50


def recovered(what: str, texts: Texts, kind: str) -> str:
    """Recover every stage, and continue; return whether all were recovered."""
    process = RecoverProcess(dict(texts), "recover")
    outcomes = recover_all(process, kind)
    refused = [outcome.stage for outcome in outcomes if outcome.refused]
    for stage in refused:
        assert same_stage(stage, texts, process.texts), f"{what}: {stage} was refused and changed"
    to_rebuild = [outcome.stage for outcome in outcomes if any("must be rebuilt" in step for step in outcome.steps)]
    said = finish(process.texts, kind, LOTS + 1)
    if to_rebuild:
        assert said.startswith("StateError: a rebuild of "), f"{what}: {outcomes}: {said}"
        return "to rebuild"
    assert said == "exact" or (refused and said.startswith("StateError")), f"{what}: {outcomes}: {said}"
    return "refused" if refused else "recovered"


def same_stage(stage: str, one: Texts, other: Texts) -> bool:
    places = {
        "bronze": ("lake/bronze",),
        "silver": ("lake/silver",),
        "gold.by_rest": ("lake/gold",),
    }[stage]
    where = tuple(f"{each}/" for each in (*places, checkpoint(stage)))
    return all(one.get(path) == other.get(path) for path in one.keys() | other.keys() if path.startswith(where))


@pytest.mark.parametrize("deed", ["old copy put back", "deleted"])
def test_an_old_copy_of_quarantine_is_detected(deed: str) -> None:
    texts = line("kafka", lots=1)[-1].texts
    (changed,) = [
        each for what, each in tamperings(texts) if what.startswith("lake/silver/quarantine") and deed in what
    ]
    assert finish(dict(changed), "kafka", LOTS + 1).startswith("StateError")


@pytest.mark.parametrize("stages", [*((stage,) for stage in STAGES), STAGES])
def test_an_old_checkpoint_put_back_is_refused_and_recovered(stages: tuple[str, ...]) -> None:
    states, met, ends = line("kafka", LOTS), set(), Counter[str]()
    for at, old in enumerate(states):
        for new in states[at + 1 :]:
            texts = with_old_checkpoint(new.texts, old.texts, *stages)
            key = frozenset(texts.items())
            if texts == new.texts or key in met:
                continue
            met.add(key)
            said = finish(texts, "kafka", LOTS + 1)
            assert not said.startswith("wrong"), f"{new.way} with the checkpoint of {old.way}: {said}"
            ends[said.split(":")[0]] += 1
            if said.startswith("StateError"):
                assert recovered(str(new.way), texts, "kafka") == "recovered"
    assert ends["StateError"] > 10


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("deed", ["every checkpoint deleted", "gold restored", "quarantine restored"])
def test_a_recovery_that_dies_at_any_step_is_completed_by_the_next(kind: str, deed: str) -> None:
    texts = ruined(kind, deed)
    whole = RecoverProcess(dict(texts), "recover")
    assert all(outcome.refused is None for outcome in recover_all(whole, kind))
    for at in range(whole.steps):
        process = RecoverProcess(dict(texts), "recover", die_at=at)
        with pytest.raises(BaseException, match=r"^$"):
            recover_all(process, kind)
        said = finish(dict(process.texts), kind, LOTS + 1)
        assert said == "exact" or said.startswith("StateError"), f"died at {at}: {said}"
        again = RecoverProcess(process.texts, "again")
        assert all(outcome.refused is None for outcome in recover_all(again, kind))
        assert finish(again.texts, kind, LOTS + 1) == "exact", f"died at {at}"


def ruined(kind: str, deed: str) -> Texts:
    texts = line(kind, LOTS)[-1].texts
    if deed == "every checkpoint deleted":
        return without(texts, "ckpt")
    wanted = f"{place(GOLD)} restored to 1" if deed == "gold restored" else f"{place(QUARANTINE)} restored to 0"
    return next(each for what, each in tamperings(texts) if what == wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_a_dry_run_changes_nothing(kind: str) -> None:
    texts = without(line(kind, LOTS)[-1].texts, "ckpt")
    process = RecoverProcess(dict(texts), "recover")
    assert all(outcome.steps for outcome in recover_all(process, kind, dry_run=True))
    assert process.texts == texts


def test_an_accepted_loss_is_recorded_and_nothing_else_is_missing() -> None:
    for state in line("kafka", LOTS):
        for what, texts in tamperings(state.texts):
            left = dict(texts)
            if what != "topic trimmed" or not finish(left, "kafka", LOTS + 1).startswith(StateError.__name__):
                continue
            gone = faults(left).lost["bronze"]
            process = RecoverProcess(left, "recover")
            assert not any(outcome.refused for outcome in recover_all(process, "kafka", accept_loss=True))
            assert run(Process(process.texts, "after"), "kafka").kind == "done"
            missing = faults(process.texts)
            assert missing.lost["bronze"] == missing.lost["silver and quarantine"] <= gone
            assert not missing.doubled
            assert not missing.twice
