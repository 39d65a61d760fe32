"""This is where a process of the model is kept: all that survives it is texts, and each change of one is a step.

A process that dies at a step leaves exactly the texts of the moment before it. So no process has to be
killed: the texts before every step are the crashes, all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.support.memory import MemoryFiles

Texts = dict[str, str]


class Died(BaseException):
    """Raised at the step that a process dies at, and at every step that it would still take."""


@dataclass
class Process(MemoryFiles):
    """One start of the program, as the store and the Spark that it sees.

    Attributes:
        name: tells its commits from another start's.
        root: where its checkpoints are; a second instance can have others.
        before: called before each step with its number and name; may look, run another process, or raise.
        steps: how many steps were begun.
        die_at: the number of the step that it dies at.
    """

    name: str = "run"
    root: str = "ckpt"
    before: Callable[[int, str], None] = lambda *_: None
    steps: int = 0
    die_at: int | None = None

    def step(self, what: str) -> None:
        """Stop at a point where the process can die, or be held up."""
        if self.dead:
            raise Died
        self.before(self.steps, what)
        self.steps += 1
        if self.dead:
            raise Died

    @property
    def dead(self) -> bool:
        return self.die_at is not None and self.steps > self.die_at

    def names(self, path: str) -> list[str]:
        inside, start = f"{path}/", len(path) + 1
        return sorted({key[start:].split("/", 1)[0] for key in self.texts if key.startswith(inside)})

    def write(self, path: str, text: str) -> None:
        self.step(f"write {path}")
        super().write(path, text)

    def create(self, path: str, text: str) -> bool:
        """Write a file that must not be there yet, whole at once; tell whether it was not."""
        self.step(f"create {path}")
        if path in self.texts:
            return False
        self.texts[path] = text
        return True

    def move(self, path: str, to: str) -> None:
        self.step(f"move {path} to {to}")
        super().move(path, to)

    def remove(self, path: str) -> None:
        self.step(f"remove {path}")
        super().remove(path)

    def __hash__(self) -> int:
        return id(self)
