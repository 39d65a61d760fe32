"""Keep the objects of a lease in memory."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Objects:
    """The objects of a lease in memory, and a clock that goes on when somebody waits."""

    now: float = 1000.0
    texts: dict[int, str] = field(default_factory=dict)
    loses: Callable[[int], bool] = lambda _: False
    while_waiting: Callable[[], object] = lambda: None
    requests: int = 0

    def newest(self) -> int:
        self.requests += 1
        return max(self.texts, default=0)

    def read(self, number: int) -> str | None:
        self.requests += 1
        return self.texts.get(number)

    def put(self, number: int, text: str) -> bool:
        self.requests += 1
        if number in self.texts:
            return False
        self.texts[number] = text
        if self.loses(number):
            raise OSError("the answer got lost")
        return True

    def remove_before(self, number: int) -> None:
        self.texts = {kept: text for kept, text in self.texts.items() if kept >= number}

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert self.now < Objects.now + 600, "it waits for ever"
        self.now += seconds
        self.while_waiting()
