"""This is where it is decided which lake a notebook opens."""

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oncelake.common.afterwards import remove_afterwards
from oncelake.common.errors import ConfigError
from oncelake.common.spark.runtime import is_given, on_databricks
from oncelake.engine.configuration import CONF, SCRATCH, SETS, section_of, shipped_conf
from oncelake.engine.settings import Settings
from oncelake.lab.crash_test.conduct import MEMORY, QUICK

# They are filled with a made log where no lake was named for them to look at.
LOOKING = ("01_explore_errors", "06_stream_health")
# They kill, replay and delete, and that in a lake of their own alone; every other notebook only looks at a named one.
PLAYING = ("02_follow_one_record", "03_replay_is_a_noop", "04_delivery_semantics", "05_quality")
# The sections of the settings that say where a lake is.
_PLACES = ("lake", "checkpoints")
_DEPLOYED = "conf/dev.yaml"


@dataclass(frozen=True)
class Chosen:
    """Which lake a notebook opens.

    Attributes:
        name: the notebook's.
        conf: the configuration.
        sets: settings that are put over it, as by `--set`.
        root: a directory of the notebook's own.
        own: whether the lake is in it, and so the notebook's to write.
        said: all this for people, in one line.
    """

    name: str
    conf: Path
    sets: tuple[str, ...]
    root: Path
    own: bool
    said: str


def choose(name: str, conf: str | os.PathLike[str] | None, sets: Sequence[str]) -> Chosen:
    """Choose a notebook's lake: the one that is named, or one of its own.

    Relative paths are meant from the directory above the notebooks, where commands are run, so this goes there.

    Raises:
        ConfigError: a lake of its own has no place on Databricks, or settings name another place for it.
    """
    if Path.cwd().name == "notebooks":
        os.chdir("..")
    named, given = _named(conf, sets) if name not in PLAYING else (None, ())
    if named is not None:
        root = _directory(name, None)
        said = " ".join([f"{name} looks at the lake of {named}", *given]) + "; nothing is changed in it"
        return Chosen(name, named.absolute(), given, root, False, said)
    elsewhere = next((each for each in sets if each.partition("=")[0].split(".")[0] in _PLACES), None)
    if elsewhere is not None:
        raise ConfigError(
            f"{name} writes, and so has a lake of its own: leave {elsewhere} out; to look at a lake that is there, "
            "name its configuration in a notebook of your own"
        )
    root = _directory(name, os.environ.get(SCRATCH))
    _forget_environment()
    stays = "which stays" if os.environ.get(SCRATCH) else "which is removed when the notebook's kernel ends"
    said = f"{name} has a lake of its own in {root}, {stays}"
    over = Path(conf) if conf is not None else shipped_conf() / "local.yaml"
    return Chosen(name, over.absolute(), (*_own_sets(root), *sets), root, True, said)


def _named(conf: str | os.PathLike[str] | None, sets: Sequence[str]) -> tuple[Path | None, tuple[str, ...]]:
    """Give the configuration that was named: by argument, by environment, on Databricks by the notebook's widgets."""
    if conf is not None:
        return Path(conf), tuple(sets)
    asked, over = os.environ.get(CONF), os.environ.get(SETS, "")
    if asked is None and on_databricks():
        asked, over = _widget("conf", _DEPLOYED), _widget("sets", over)
    return (Path(asked) if asked else None), (*split_sets(over), *sets)


def split_sets(text: str) -> tuple[str, ...]:
    """Give the settings in a text that has them line by line, or with `;` between."""
    return tuple(each.strip() for each in re.split(r"[;\n]", text) if each.strip())


def _widget(name: str, default: str) -> str:
    """Ask a field at the top of the notebook, which a job fills by a parameter of that name."""
    from IPython import get_ipython  # noqa: PLC0415 - there is one in a notebook alone

    widgets = get_ipython().user_ns["dbutils"].widgets
    widgets.text(name, default)
    return str(widgets.get(name))


def _directory(name: str, scratch: str | None) -> Path:
    """Make the notebook's directory: it stays where a place was named for it, else it goes with the kernel."""
    if scratch is None and on_databricks() and name in PLAYING:
        raise ConfigError(
            f"{name} makes a lake of its own, and on Databricks that needs a place that all machines reach: set the "
            f"environment variable {SCRATCH} to a directory in a volume, as /Volumes/main/default/scratch"
        )
    if scratch is not None:
        Path(scratch).mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix=f"oncelake-{name}-", dir=scratch)).absolute()
    if scratch is None:
        remove_afterwards(root)
    return root


def _own_sets(root: Path) -> tuple[str, ...]:
    (root / "logs").mkdir()
    places = (f"source.path={root / 'logs'}", f"lake.root={root / 'lake'}", f"checkpoints={root / 'checkpoints'}")
    small = (f"spark.driver_memory={MEMORY}", f"spark.conf.spark.driver.extraJavaOptions={' '.join(QUICK)}")
    return ("source.kind=files", *places, *(() if is_given() else small))


def _forget_environment() -> None:
    """Take settings out of this process's environment: a lake to play with must not reach a database of the user's."""
    for name in list(os.environ):
        if section_of(name) in Settings.model_fields:
            del os.environ[name]
