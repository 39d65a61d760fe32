"""Build the command that runs oncelake as shipped, with the settings of a benchmark."""

import sys

from oncelake.engine.configuration import shipped_conf


def command(*sets: str, once: bool = True) -> list[str]:
    """Return the command that processes all available input, or runs until it is stopped."""
    run = [sys.executable, "-m", "oncelake", "run", *(["--once"] if once else [])]
    return [*run, "-c", str(shipped_conf() / "local.yaml"), *(part for each in sets for part in ("--set", each))]
