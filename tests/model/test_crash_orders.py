"""Whatever the order of crashes: every number counts once, no table gets a batch twice, and no start is refused."""

from contextlib import suppress

import pytest

from tests.model.chain_model import STAGES, TABLES, checkpoint, faults, place, run
from tests.model.delta_model import newest, notes
from tests.model.exploring import crashes_of, explore
from tests.model.process import Process
from tests.model.source_model import LOTS, produce

KINDS = ("kafka", "files")


@pytest.mark.parametrize(("kind", "lots", "least"), [("kafka", 3, 500), ("files", 2, 150)])
def test_the_answer_is_exact_after_any_crashes(kind: str, lots: int, least: int) -> None:
    found = explore(kind, lots)
    assert not found.wrong
    assert not found.refused
    assert len(found.states) > least


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_can_die_at_every_durable_step_of_every_stage(kind: str) -> None:
    texts: dict[str, str] = {}
    produce(texts, kind)
    crashes, _ = crashes_of(texts, kind)
    steps = {what.removeprefix("died before: ") for _, what in crashes}
    for stage in STAGES:
        logs = {"metadata", "offsets/0", "commits/0"}
        assert {f"create {checkpoint(stage)}/{log}" for log in logs} <= steps
    assert {f"commit 0 to {place(table)}" for table in TABLES} <= steps
    assert "create ckpt/bronze/sources/0/0" in steps


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_without_new_input_changes_nothing(kind: str) -> None:
    settled = {state.key: state for state in explore(kind, lots=2).settled}
    for state in settled.values():
        process = Process(dict(state.texts), "another run")
        assert run(process, kind).kind == "done"
        assert process.texts == state.texts


@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_only_good_or_only_bad_rows_are_exact(kind: str) -> None:
    process = Process({})
    for _ in LOTS:
        produce(process.texts, kind)
        assert run(process, kind).kind == "done"
    assert not faults(process.texts)
    written = [metadata.batch_id for metadata in notes(process.texts, "lake/silver/quarantine")]
    assert written == [0, 2, 3, 4]
    assert newest(process.texts, "lake/silver/access_log") == len(LOTS)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_at_any_step_changes_no_more_than_a_crash(kind: str) -> None:
    texts: dict[str, str] = {}
    produce(texts, kind)
    whole = Process(dict(texts))
    run(whole, kind)
    for at in range(whole.steps):

        def fail(number: int, what: str, at: int = at) -> None:
            if number == at:
                raise OSError(f"no space left on device: {what}")

        failed, dead = Process(dict(texts), before=fail), Process(dict(texts), die_at=at)
        with suppress(OSError):  # where a table could not be created
            assert run(failed, kind).kind == "StageError"
        assert run(dead, kind).kind == "died"
        assert failed.texts == dead.texts
