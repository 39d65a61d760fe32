"""In long random sequences of events, no run reports success with a wrong answer."""

from contextlib import ExitStack, suppress

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.model.chain_model import STAGES, faults, replacing, run
from tests.model.guards import GUARDS
from tests.model.process import Died, Process, Texts
from tests.model.recovering import RecoverProcess, recover_all
from tests.model.source_model import LOTS, lots, produce
from tests.model.tampering import is_left_to_prove, tamperings, with_old_checkpoint

SETTINGS = settings(
    max_examples=120,
    stateful_step_count=15,
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
ORDINARY = ("checkpoint", "ckpt/", "restored", "compacted", "deleted", "old copy")


class Story(RuleBasedStateMachine):
    """One lake, its source, and what happens to them.

    Attributes:
        texts: all that survives a process.
        copies: earlier states, whose checkpoints can be put back.
        starts: how many processes there were.
    """

    @initialize(kind=st.sampled_from(["kafka", "files"]))
    def begin(self, kind: str) -> None:
        self.kind, self.starts = kind, 0
        self.texts: Texts = {}
        self.copies: list[Texts] = []
        produce(self.texts, kind)

    def start(self) -> str:
        self.starts += 1
        return f"start {self.starts}"

    @precondition(lambda self: lots(self.texts) < len(LOTS))
    @rule()
    def more_input(self) -> None:
        produce(self.texts, self.kind)

    @rule()
    def run_to_the_end(self) -> None:
        ending = run(Process(self.texts, self.start()), self.kind)
        assert ending.kind != "done" or not faults(self.texts), str(faults(self.texts))

    @rule(choice=st.integers(0, 1_000))
    def run_and_die(self, choice: int) -> None:
        run(Process(self.texts, self.start(), die_at=self.step(choice)), self.kind)

    def step(self, choice: int) -> int:
        """Choose one of the steps that a run would take now, each with the same probability."""
        whole = Process(dict(self.texts))
        run(whole, self.kind)
        return choice % max(whole.steps, 1)

    @rule(choice=st.integers(0, 1_000))
    def be_overtaken(self, choice: int) -> None:
        """Suspend a start at a step; continue it after another start from the same checkpoints has run to its end."""
        step, second = self.step(choice), Process(self.texts, self.start())

        def hold(number: int, what: str) -> None:
            del what
            if number == step:
                run(second, self.kind)

        run(Process(self.texts, self.start(), before=hold), self.kind)

    @rule()
    def keep_a_copy(self) -> None:
        self.copies.append(dict(self.texts))

    @rule(choice=st.integers(0, 1_000))
    def tamper(self, choice: int) -> None:
        deeds = [
            (what, texts)
            for what, texts in tamperings(self.texts)
            if any(word in what for word in ORDINARY) and "file:" not in what and not is_left_to_prove(self.texts, what)
        ]
        if deeds:
            self.texts = deeds[choice % len(deeds)][1]

    @precondition(lambda self: self.copies)
    @rule(choice=st.integers(0, 1_000), stages=st.sampled_from([*((stage,) for stage in STAGES), STAGES]))
    def put_an_old_checkpoint_back(self, choice: int, stages: tuple[str, ...]) -> None:
        self.texts = with_old_checkpoint(self.texts, self.copies[choice % len(self.copies)], *stages)

    @rule()
    def recover(self) -> None:
        outcomes = recover_all(RecoverProcess(self.texts, self.start()), self.kind)
        if not any(outcome.refused for outcome in outcomes):
            self.run_to_the_end()

    @rule(step=st.integers(0, 12))
    def recover_and_die(self, step: int) -> None:
        process = RecoverProcess(self.texts, self.start(), die_at=step)
        with suppress(Died):
            recover_all(process, self.kind)

    @invariant()
    def nothing_is_there_twice(self) -> None:
        wrong = faults(self.texts)
        assert not wrong.doubled, str(wrong)
        assert not wrong.twice, str(wrong)


@pytest.mark.timeout(120)
def test_no_sequence_of_events_ends_in_a_silent_wrong_answer() -> None:
    run_state_machine_as_test(Story, settings=SETTINGS)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "off",
    [
        ("quarantine on replay",),
        ("range of a batch", "receipt", "transaction"),
    ],
)
def test_random_sequences_detect_a_guard_that_is_off(off: tuple[str, ...]) -> None:
    unshrunk = settings(SETTINGS, phases=[Phase.generate], max_examples=3_000, print_blob=False)
    with ExitStack() as stack:
        for name in off:
            stack.enter_context(replacing(GUARDS[name]))
        stack.enter_context(pytest.raises(AssertionError, match=r"lost|doubled"))
        run_state_machine_as_test(Story, settings=unshrunk)
