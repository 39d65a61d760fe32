"""Each guard is needed: without it, the search finds the fault that it prevents, or the guard behind it.

| off | what the search finds |
|---|---|
| transaction id | the receipt ends the batch: "did not record" |
| transaction id, receipt and the table's own range of a batch | a crash before `commits/N`: doubled |
| range of a batch | Delta skips the write, and the receipt ends the batch |
| confs of the MERGE and of the append on another session, receipt | the next start finds rows that no batch wrote |
| the same, and rows without a batch | a crash before `commits/N`: doubled |
| quarantine on a replay | a crash between silver and quarantine: lost |
| same rules for both tables of a batch | a change of rules between silver and quarantine: numbers do not add up |
| same rules, the sum of a replay | a change of rules between silver and quarantine: lost or doubled |
| diagnosis | offsets deleted: lost |
| diagnosis, range of a batch | every checkpoint deleted: doubled |
| diagnosis, range of a batch, receipt; one application id for all queries | every checkpoint deleted: lost |
| diagnosis | a table's old copy put back: the gap ends the next batch |
| diagnosis, no gap | a table's old copy put back: lost, and the next batch continues |
| other tables | quarantine restored: lost |
| source | a topic recreated with more offsets: lost; one that was trimmed: Spark's failOnDataLoss ends it |
| source's log | the list of seen files deleted after one batch: lost |
| transaction id | a process that wakes up between two of its own steps: doubled |
| alone before a write | one with another checkpoint: doubled at five steps, not at two |
| table in the application id | nothing: Delta keeps transactions per table, and a batch writes each table once |
"""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.model.chain_model import faults, replacing
from tests.model.exploring import explore, finish, line
from tests.model.guards import GUARDS
from tests.model.instances import begun, overlaps
from tests.model.process import Texts
from tests.model.source_model import produce
from tests.model.tampering import tamperings


@pytest.fixture(params=[()])
def off(request: pytest.FixtureRequest) -> Iterator[None]:
    """Switch guards off for a test."""
    with ExitStack() as stack:
        for name in request.param:
            stack.enter_context(replacing(GUARDS[name]))
        yield


def crashed(kind: str) -> str:
    """Return the shortest wrong answer after crashes, else the first error, else `exact`."""
    found = explore(kind, lots=2, most=150)
    if found.wrong:
        state, wrong = found.wrong[0]
        return f"wrong: {wrong} after {state.way}"
    return f"caught: {found.refused[0][1].said}" if found.refused else "exact"


def tampered(kind: str, deed: str, *, more: bool = False) -> Iterator[str]:
    """Yield how each state of the line ends after one kind of tampering."""
    for state in line(kind, 2):
        for what, texts in tamperings(state.texts):
            if what == deed:
                left = dict(texts)
                if more:
                    produce(left, kind)
                yield finish(left, kind, 3)


@pytest.mark.parametrize("kind", ["kafka", "files"])
@pytest.mark.parametrize(
    ("off", "finds"),
    [
        ((), "exact"),
        (("transaction",), r"caught: .* did not record batch 0"),
        (("range of a batch",), r"caught: .* did not record batch 0"),
        (("range of a batch", "receipt"), "exact"),
        (("range of a batch", "receipt", "transaction"), r"wrong: bronze doubled .*died before: create \S+/commits/0"),
        (("receipt",), "exact"),
        (("confs", "receipt"), r"caught: .*bronze: foreign: .* no batch of this chain wrote"),
        (
            ("confs", "receipt", "rows without a batch"),
            r"wrong: bronze doubled .*died before: create \S+/commits/0",
        ),
        (("quarantine on replay",), r"wrong: silver and quarantine lost .*died before: begin to write \S+/quarantine"),
        (("table in the application id",), "exact"),
    ],
    indirect=["off"],
)
@pytest.mark.usefixtures("off")
def test_a_crash_without_a_guard_is_caught_or_wrong(kind: str, finds: str) -> None:
    said = crashed(kind)
    assert matches(finds, said), said


@pytest.mark.parametrize(
    ("off", "kind", "deed", "finds"),
    [
        (("diagnosis",), "kafka", "bronze: offsets deleted", r"wrong: bronze lost"),
        (("diagnosis",), "kafka", "all checkpoints deleted", r"StageError: bronze .* is replayed with another range"),
        (("diagnosis", "range of a batch"), "kafka", "all checkpoints deleted", r"wrong: bronze doubled"),
        (
            ("diagnosis", "range of a batch", "receipt", "query id in the application id"),
            "kafka",
            "all checkpoints deleted",
            r"wrong: bronze lost",
        ),
        (("other tables",), "kafka", "lake/silver/quarantine restored to 0", r"wrong: silver and quarantine lost"),
        (("source",), "kafka", "topic recreated, longer", r"wrong: bronze lost"),
        (("source",), "kafka", "topic cut and refilled", r"wrong: bronze lost"),
        (("source",), "kafka", "topic trimmed", r"StageError: .*failOnDataLoss"),
        (("source's log",), "files", "bronze: sources deleted", r"wrong: bronze lost"),
    ],
    indirect=["off"],
)
@pytest.mark.usefixtures("off")
def test_tampering_without_a_guard_is_caught_or_wrong(kind: str, deed: str, finds: str) -> None:
    ends = list(tampered(kind, deed))
    assert any(matches(finds, said) for said in ends), ends


@pytest.mark.parametrize(
    ("off", "finds"),
    [
        (("diagnosis",), r"StageError: bronze .* starts at .* the last batch recorded in"),
        (("diagnosis", "no gap"), r"wrong: bronze lost"),
    ],
    indirect=["off"],
)
@pytest.mark.usefixtures("off")
def test_an_old_copy_of_a_table_without_a_guard_is_caught_or_wrong(finds: str) -> None:
    ends = list(tampered("kafka", "lake/bronze/access_log: old copy put back", more=True))
    assert any(matches(finds, said) for said in ends), ends


@pytest.mark.parametrize(
    ("off", "finds"),
    [
        ((), r"StageError: silver .* half written"),
        (("same rules",), r"StageError: silver .*: the numbers do not add up"),
        (("same rules", "sum of a replay"), r"wrong: silver and quarantine (lost|doubled)"),
    ],
    indirect=["off"],
)
@pytest.mark.usefixtures("off")
def test_a_change_of_rules_without_a_guard_is_caught_or_wrong(finds: str) -> None:
    ends = [finish(dict(state.texts), "kafka", 2, rules="stricter") for state in line("kafka", 2) if state.way]
    assert any(matches(finds, said) for said in ends), ends


@pytest.mark.parametrize(
    ("off", "root", "most"),
    [
        ((), "ckpt", 0),
        (("alone before", "alone after"), "ckpt", 0),
        (("transaction",), "ckpt", 4),
        ((), "other", 2),
        (("alone before",), "other", 5),
    ],
    indirect=["off"],
)
@pytest.mark.usefixtures("off")
def test_an_overlap_without_a_guard_is_never_silent(root: str, most: int) -> None:
    """A second instance doubles rows at no more steps than its guards leave open, and never silently."""
    doubled: Counter[bool] = Counter()
    for state in begun("kafka", lots=2):
        for overlap in overlaps(state, "kafka", root, deaths=False):
            wrong = is_doubled(overlap.texts)
            doubled[wrong] += 1
            assert not (wrong and overlap.silent), str(overlap)
    assert doubled[True] == most


def is_doubled(texts: Texts) -> bool:
    found = faults(texts)
    return bool(found.doubled or found.twice)


def matches(finds: str, said: str) -> bool:
    return re.match(finds, said, re.DOTALL) is not None
