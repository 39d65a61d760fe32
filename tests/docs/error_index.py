"""Generate docs/errors.md: the classes of errors with their messages, the states of a stage, the faults of a file.

The messages are read from the source: a value in a message becomes `<its name>`. A message that a function puts
together from parts is not listed.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import oncelake
from oncelake.common import errors
from oncelake.common.errors import OncelakeError
from oncelake.exactly_once.state import CONSEQUENCE, State
from tests.support.places import ROOT

PAGE = ROOT / "docs/errors.md"
PACKAGE = Path(oncelake.__file__).parent
# what to do about an error of each class; the message itself says more
ADVICE: Mapping[str, str] = {
    "OncelakeError": "Do what the message says.",
    "ConfigError": "Correct the setting, the flag or the declaration that the message names: "
    "[configuration](configuration.md), [commands](commands.md). A restart does not help.",
    "SourceError": "Make the source readable, then start again; nothing is lost or repeated.",
    "StateError": "Run `oncelake doctor`, and do what it says: [what to do when …](operations/README.md).",
    "LockedError": "Wait until the other process has ended, or stop it: "
    "[the lake is held](operations/lake-is-held.md).",
    "ReplayError": "Stop every other process that writes the lake, then run `oncelake doctor`: "
    "[what to do when …](operations/README.md).",
    "ReceiptError": "Stop every other process that writes the lake, then run `oncelake doctor`. If it comes again, "
    "report it: a batch was not written as it should be, and the run ended before the next one.",
    "TargetError": "Correct what the database or the sink refuses, then start again: [serving](serving.md).",
    "TargetAwayError": "Nothing, if it comes back by itself: the stage waits. Else start it: "
    "[target away](operations/target-away.md).",
    "OvertakenError": "Stop the other process that writes the served table, then run `oncelake doctor`.",
    "StoppedError": "Start the command that the message names, or a run: it goes on where the stopped one ended.",
    "GateError": "Look at the lines, repair the format or the limit, then start again: [quality](quality.md).",
    "DeliveryError": "Correct the receiver, and try it with `oncelake alerts test`: [alerts](alerts.md).",
    "StageError": "Do what the cause in the message says, then start again: "
    "[a stage stopped](operations/stage-stopped.md).",
}
_ABOUT = """\
# Error index

For everyone who reads an error and looks for what to do. Every error that a user sees is one line on standard error,
`oncelake: …`, and an exit code; with `--json` also a JSON line. `<name>` stands for a value. A message that is put
together from parts, such as the cause of a failed batch, is not listed. `make docs` writes this page from the source.
[Exit codes](operations/day-to-day.md#exit-codes) has the codes of every command.
"""
_STATES = """\
## States of a stage

`oncelake doctor` and `status` show one for each stage. A stage starts in {starts}, and waits in `target away`;
every other state forbids a start, and `run` ends with exit code 1.

| state | if the stage started all the same | what to do |
|---|---|---|
"""


def page() -> str:
    """Return docs/errors.md as the source of today gives it."""
    messages = found()
    sections = [_section(class_, messages.get(class_.__name__, {})) for class_ in classes()]
    return "\n".join([_ABOUT, _states(), *sections]).rstrip() + "\n"


def classes() -> list[type[OncelakeError]]:
    """Return the classes of errors that a user sees, in the order of the module."""
    every = [var for var in vars(errors).values() if isinstance(var, type) and issubclass(var, OncelakeError)]
    return sorted(every, key=lambda each: each is not OncelakeError)


def _states() -> str:
    rows = [
        f"| `{state}` | {CONSEQUENCE.get(state, 'it may start')} | [{state}](operations/{state.page}) |"
        for state in State
    ]
    may = " and ".join(f"`{state}`" for state in State if state not in CONSEQUENCE)
    return _STATES.format(starts=may) + "\n".join(rows) + "\n"


def _section(error: type[OncelakeError], messages: Mapping[str, set[str]]) -> str:
    (parent,) = error.__bases__
    said = (error.__doc__ or "").strip().splitlines()[0].removeprefix("Raised ")
    kind = f" A kind of {parent.__name__}." if parent not in (Exception, OncelakeError) else ""
    lines = [f"## {error.__name__}", ""]
    lines += [
        f"{said[0].upper()}{said[1:]}{kind} Exit code {error.exit_code}. **What to do**: {ADVICE[error.__name__]}",
        "",
    ]
    for place, texts in sorted(messages.items()):
        lines += [f"In `{place}`:", "", *(f"- {_code(text)}" for text in sorted(texts)), ""]
    return "\n".join(lines)


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def found() -> Mapping[str, Mapping[str, set[str]]]:
    """Return the messages of each class of errors, by the folder of the package that raises them."""
    names = {class_.__name__ for class_ in classes()}
    messages: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for name, text in _raised(ast.parse(path.read_text(encoding="utf-8")), names):
            messages[name][place].add(text)
    return messages


def _raised(tree: ast.AST, names: set[str]) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names and node.args:
            text = template(node.args[0])
            if text and " " in text:
                yield node.func.id, text


def template(node: ast.expr) -> str | None:
    """Return a message with `<name>` for each value; None for one that is not written at its place."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return " ".join(node.value.split())
    if not isinstance(node, ast.JoinedStr):
        return None
    parts = [
        str(part.value) if isinstance(part, ast.Constant) else f"<{_named(part.value)}>"
        for part in node.values
        if isinstance(part, ast.Constant | ast.FormattedValue) and not _is_question(part)
    ]
    return " ".join("".join(parts).split())


def _is_question(part: ast.expr) -> bool:
    """Return True for the question whether a close name was meant, which ends a message in some cases."""
    call = part.value if isinstance(part, ast.FormattedValue) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "did_you_mean"


def _named(value: ast.expr) -> str:
    """Return the name of a value: of a variable, an attribute, or what a function is called with."""
    if isinstance(value, ast.Name):
        return value.id.strip("_").lower()
    if isinstance(value, ast.Attribute):
        return value.attr.strip("_").lower()
    if isinstance(value, ast.Call) and value.args:
        return _named(value.args[0])
    if isinstance(value, ast.Call):
        return _named(value.func)
    if isinstance(value, ast.Subscript):
        return _named(value.value)
    return "…"
