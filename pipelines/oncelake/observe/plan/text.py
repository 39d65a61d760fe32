"""Show a plan as text."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from oncelake.common.wording import count_of, number, printable
from oncelake.engine.differences import Difference
from oncelake.observe.plan.changes import StageChange
from oncelake.observe.plan.commands import Command
from oncelake.observe.plan.plan import Plan, StagePlan
from oncelake.observe.plan.sample import LineSample, Tried

# A difference that is longer than this goes into lines of its own.
_SHORT = 74
_KINDS = {"go on": "go on with", "refused": "leave out", "wait": "wait for the database of"}


def plan_lines(plan: Plan, width: int | None = None) -> Iterator[str]:
    """Yield a plan as lines.

    Args:
        plan: the plan.
        width: the width of the terminal; None to wrap nothing.
    """
    for indent, line in _lines(plan):
        first = " " * indent
        if width is None or len(line) + indent <= width:
            yield first + line
        else:
            yield from textwrap.wrap(
                line,
                width,
                initial_indent=first,
                subsequent_indent=f"{first}  ",
                break_long_words=False,
                break_on_hyphens=False,
            )


def _lines(plan: Plan) -> Iterator[tuple[int, str]]:
    if plan.is_new and plan.holds:
        yield 0, f"a new lake in {plan.lake}"
        yield from _work(plan.stages)
    elif not plan.changes and plan.holds:
        yield 0, _unchanged(plan)
    else:
        yield from _changes(plan)
        yield from _refused(plan)
        yield from _work(plan.stages) if plan.starts else ()
        yield from _commands(plan.commands)
    if plan.sample is not None:
        yield from _sample(plan.sample)
    elif plan.changes:
        yield from ((0, f"not checked: {part}") for part in plan.unchecked)


def _changes(plan: Plan) -> Iterator[tuple[int, str]]:
    if plan.changes:
        yield 0, f"changed since {plan.against}" if plan.against else "changed"
    for change in plan.changes:
        yield from _change(change)


def _refused(plan: Plan) -> Iterator[tuple[int, str]]:
    if plan.refused:
        yield 0, "refused: a run goes on without it" if plan.starts else "refused: a run would change nothing"
    for refusal in plan.refused:
        yield from ((2, line) for line in refusal.reason.splitlines())


def _unchanged(plan: Plan) -> str:
    if plan.against is not None:
        return f"nothing changed since {plan.against}"
    waiting = [
        f"{count_of(stage.work.count, stage.work.unit.removesuffix('s'))} of {stage.work.reads}"
        for stage in plan.stages
        if stage.work is not None
    ]
    return f"nothing changed; a run reads {', '.join(waiting)}" if waiting else "nothing changed, and nothing to read"


def _change(change: StageChange) -> Iterator[tuple[int, str]]:
    if change.kind != "changed":
        yield 2, f"{change.stage}: {change.kind}{f'; {change.note}' if change.note else ''}"
        return
    yield 2, f"{change.stage}: {change.note}" if change.note else change.stage
    for difference in change.differences:
        yield from _difference(difference)


def _difference(difference: Difference) -> Iterator[tuple[int, str]]:
    text = printable(str(difference), 2_000)
    if len(text) <= _SHORT or difference.before is None or difference.now is None:
        yield 4, text
        return
    yield 4, f"{difference.key}:"
    yield 6, f"before: {printable(difference.before, 1_000)}"
    yield 6, f"now:    {printable(difference.now, 1_000)}"


def _work(stages: Sequence[StagePlan]) -> Iterator[tuple[int, str]]:
    yield 0, "a run would"
    for stage in (stage for stage in stages if stage.action == "build"):
        yield 2, f"build {stage.stage}{f' from {stage.work}' if stage.work is not None else ''}"
    others = [stage for stage in stages if stage.action != "build"]
    for action, group in groupby(sorted(others, key=lambda stage: stage.action), key=lambda stage: stage.action):
        yield 2, f"{_KINDS[action]} {', '.join(map(_going_on, group))}"


def _going_on(stage: StagePlan) -> str:
    work = stage.work
    return stage.stage if work is None else f"{stage.stage} ({count_of(work.count, work.unit.removesuffix('s'))})"


def _commands(commands: Iterable[Command]) -> Iterator[tuple[int, str]]:
    for needed, group in groupby(commands, key=lambda command: command.needed):
        yield 0, "what solves it" if needed else "rows that are there stay as they are; to apply the change to them"
        for command in group:
            yield 2, command.command
            yield 4, f"{command.what}{f'; reads {command.work}' if command.work is not None else ''}"


def _sample(sample: LineSample) -> Iterator[tuple[int, str]]:
    yield 0, "on a sample"
    for name, tried, words in (
        ("quarantine", sample.out, "would pass; `oncelake quarantine replay` moves them"),
        ("silver", sample.into, "would go to quarantine"),
    ):
        yield 2, f"{name}: {number(tried.moved)} of {count_of(tried.lines, 'line')} {words}{_broken(name, tried)}"
        for example in tried.examples:
            yield 4, printable(example, 74)


def _broken(name: str, tried: Tried) -> str:
    broken = ", ".join(f"{rule} {count:,}" for rule, count in tried.rules.items())
    return f"; {'the others break' if name == 'quarantine' else 'they break'} {broken}" if broken else ""
