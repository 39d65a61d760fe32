"""Model a process: only texts survive it, and each change of a text is a step.

A process that dies at a step leaves exactly the texts of the moment before it. So no process has to be
killed: the texts before every step are all possible crashes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.memory import MemoryFiles

Texts = dict[str, str]


class Died(BaseException):
    """Raised at the step at which a process dies, and at every later step."""


@dataclass
class Process(MemoryFiles):
    """One start of the program, with the store and the Spark that it sees.

    Attributes:
        name: distinguishes its commits from another start's.
        root: where its checkpoints are; a second instance can have others.
        before: called before each step with its number and name; may inspect, run another process, or raise.
        steps: how many steps were begun.
        die_at: the number of the step at which it dies.
        per_host: whether other hosts have checkpoints of their own.
        following: for tables on a store, the version that the next commit is to be.
    """

    name: str = "run"
    root: str = "ckpt"
    before: Callable[[int, str], None] = lambda *_: None
    steps: int = 0
    die_at: int | None = None
    per_host: bool = False
    following: dict[str, int] = field(default_factory=dict)

    def step(self, what: str) -> None:
        """Mark a point where the process can die or be suspended."""
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
        """Create a file that must not exist yet, atomically; return whether it did not exist."""
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
