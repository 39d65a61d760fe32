"""The command that runs oncelake as it is shipped, with what a bench sets."""

import sys

from oncelake.engine.configuration import shipped_conf


def command(*sets: str, once: bool = True) -> list[str]:
    """Return the command: over what is there, or until it is stopped."""
    run = [sys.executable, "-m", "oncelake", "run", *(["--once"] if once else [])]
    return [*run, "-c", str(shipped_conf() / "local.yaml"), *(part for each in sets for part in ("--set", each))]
