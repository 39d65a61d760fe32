"""Choose the lake that a notebook opens: an existing lake, or one of its own."""

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oncelake.common.afterwards import remove_afterwards
from oncelake.common.errors import ConfigError
from oncelake.common.spark.runtime import is_given, on_databricks
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.configuration import CONF, SCRATCH, SETS, section_of
from oncelake.engine.settings import Settings
from oncelake.lab.crash_test.conduct import MEMORY, QUICK

# These notebooks read a named lake; if none is named, they get their own lake, filled from a generated log.
LOOKING = ("01_explore_errors", "06_stream_health")
# These notebooks kill, replay and delete, so they always use a lake of their own. Every other notebook only reads the
# lake that is named.
PLAYING = ("02_follow_one_record", "03_replay_is_a_noop", "04_delivery_semantics", "05_quality")
# The sections of the settings that define where a lake is stored.
_PLACES = ("lake", "checkpoints")
_DEPLOYED = "conf/dev.yaml"


@dataclass(frozen=True)
class ChosenLake:
    """The lake that a notebook opens.

    Attributes:
        name: the notebook's name.
        conf: the configuration file.
        sets: settings that override it, as with `--set`.
        root: the notebook's own directory.
        own: True if the lake is in that directory, so the notebook may write to it.
        description: a one-line description of the choice, for the user.
    """

    name: str
    conf: Path
    sets: tuple[str, ...]
    root: Path
    own: bool
    description: str


def choose(name: str, conf: str | os.PathLike[str] | None, sets: Sequence[str]) -> ChosenLake:
    """Choose a notebook's lake: the named one, or one of its own.

    In the directory `notebooks`, this function changes to the parent directory: relative paths start there, as for
    commands.

    Raises:
        ConfigError: the notebook needs its own lake, and Databricks has no directory for it, or the settings name
            another place.
    """
    if Path.cwd().name == "notebooks":
        os.chdir("..")
    named, named_sets = _named(conf, sets) if name not in PLAYING else (None, ())
    if named is not None:
        root = _directory(name, None)
        description = " ".join([f"{name} only reads the lake of {named}", *named_sets]) + "; it changes nothing there"
        return ChosenLake(name, named.absolute(), named_sets, root, False, description)
    elsewhere = next((setting for setting in sets if setting.partition("=")[0].split(".")[0] in _PLACES), None)
    if elsewhere is not None:
        raise ConfigError(
            f"{name} writes, so it always uses its own lake: remove {elsewhere}; to read an existing lake, "
            "open its configuration in your own notebook"
        )
    root = _directory(name, os.environ.get(SCRATCH))
    _forget_environment()
    stays = "which is kept" if os.environ.get(SCRATCH) else "which is deleted when the notebook's kernel ends"
    description = f"{name} uses its own lake in {root}, {stays}"
    over = Path(conf) if conf is not None else shipped_conf() / "local.yaml"
    return ChosenLake(name, over.absolute(), (*_own_sets(root), *sets), root, True, description)


def _named(conf: str | os.PathLike[str] | None, sets: Sequence[str]) -> tuple[Path | None, tuple[str, ...]]:
    """Return the named configuration and settings: from the arguments, the environment, or Databricks widgets."""
    if conf is not None:
        return Path(conf), tuple(sets)
    named_conf, over = os.environ.get(CONF), os.environ.get(SETS, "")
    if named_conf is None and on_databricks():
        named_conf, over = _widget("conf", _DEPLOYED), _widget("sets", over)
    return (Path(named_conf) if named_conf else None), (*split_sets(over), *sets)


def split_sets(text: str) -> tuple[str, ...]:
    """Return the settings in a text, which are separated by line breaks or `;`."""
    return tuple(setting.strip() for setting in re.split(r"[;\n]", text) if setting.strip())


def _widget(name: str, default: str) -> str:
    """Return the value of a widget at the top of the notebook; a job sets it with a parameter of the same name."""
    from IPython import get_ipython  # noqa: PLC0415 - only available in a notebook

    widgets = get_ipython().user_ns["dbutils"].widgets
    widgets.text(name, default)
    return str(widgets.get(name))


def _directory(name: str, scratch: str | None) -> Path:
    """Create the notebook's directory; without a `scratch` directory, it is deleted when the kernel ends."""
    if scratch is None and on_databricks() and name in PLAYING:
        raise ConfigError(
            f"{name} creates its own lake, and on Databricks all machines must reach its directory: set the "
            f"environment variable {SCRATCH} to a directory in a volume, for example /Volumes/main/default/scratch"
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
    """Remove settings from this process's environment, so that the notebook's lake cannot reach the user's database."""
    for name in list(os.environ):
        if section_of(name) in Settings.model_fields:
            del os.environ[name]
