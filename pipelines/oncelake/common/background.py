"""A thread that works beside a run, in rounds: metrics, alerts, a consumer group, the prefetch of tables."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

# The shortest and the longest pause before the next round, in seconds. After the shortest one, `wake` ends the pause.
Pause = tuple[float, float]
UNTIL_WOKEN: Pause = (0, inf)


@dataclass
class Background:
    """Makes rounds in a thread of its own until `end`, which lets it make one last round.

    Attributes:
        name: the thread's name.
        round: makes one round, and returns the pause before the next one; it must not raise.
        last: makes the last round; default: `round`.
    """

    name: str
    round: Callable[[], Pause]
    last: Callable[[], object] | None = None
    _woken: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, which begins with a round."""
        self._thread = threading.Thread(target=self._go, name=self.name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Let the next round begin, not before the shortest pause is over."""
        self._woken.set()

    def end(self) -> None:
        """Let the thread make its last round."""
        self._ended.set()
        self._woken.set()

    def join(self, seconds: float | None = None) -> None:
        """Wait until the last round is made, for at most some seconds."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _go(self) -> None:
        while not self._ended.is_set():
            self._woken.clear()
            if self._ended.is_set():  # `end` may have set both just before
                break
            shortest, longest = self.round()
            self._ended.wait(shortest)
            self._woken.wait(None if longest == inf else max(longest - shortest, 0))
        (self.last or self.round)()
