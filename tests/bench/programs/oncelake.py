"""Build the commands that run oncelake as shipped, with the settings of a benchmark."""

import sys

from oncelake.engine.conf_file import shipped_conf


def command(*sets: str, once: bool = True) -> list[str]:
    """Return the command that processes all available input, or runs until it is stopped."""
    return _command("run", *(["--once"] if once else []), sets=sets)


def serving_init(*sets: str) -> list[str]:
    """Return the command that creates the served tables."""
    return _command("serving", "init", sets=sets)


def prove(*sets: str) -> list[str]:
    """Return the command that proves that every line counts once."""
    return _command("prove", sets=sets)


def _command(*words: str, sets: tuple[str, ...]) -> list[str]:
    start = [sys.executable, "-m", "oncelake", *words, "-c", str(shipped_conf() / "local.yaml")]
    return [*start, *(part for each in sets for part in ("--set", each))]
