"""This is where it is said what a crash test was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oncelake.common.errors import ConfigError

# Made lines for each kill, unless told otherwise.
LINES = 300


@dataclass(frozen=True)
class Order:
    """What was asked for.

    Attributes:
        kills: how often to kill.
        seed: what kills and lines are drawn from.
        lines: how many lines to make, None for as many as the kills need.
        own_source: read the configured source instead of made lines.
        copy_lake: begin with a copy of the configured lake; the source is then the configured one, too.
    """

    conf: Path
    sets: Sequence[str]
    kills: int
    seed: int
    lines: int | None = None
    own_source: bool = False
    copy_lake: bool = False
    keep: Path | None = None
    verbose: bool = False

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            ConfigError: a flag's value is not accepted, or two flags do not go together.
        """
        if self.kills < 1:
            raise ConfigError(f"--kills {self.kills}: at least one kill is needed")
        if self.lines is not None and self.lines < 1:
            raise ConfigError(f"--lines {self.lines}: at least one line is needed")
        if self.lines is not None and not self.made:
            raise ConfigError("--lines is for made lines; leave it out with --own-source and --copy-lake")

    @property
    def made_lines(self) -> int:
        """How many lines to make: a portion before the first kill, and one for each."""
        return self.lines or LINES * (self.kills + 1)

    @property
    def made(self) -> bool:
        """Whether the lines are made here."""
        return not (self.own_source or self.copy_lake)
