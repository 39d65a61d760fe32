"""Find the configuration file and the log formats beside it, without reading them; shell completion needs no more."""

from pathlib import Path

# The configuration file that is read if none is named and this one exists.
LOCAL = Path("conf/local.yaml")


def conf_file(conf: Path | None) -> Path | None:
    """Return the file that is named, or `conf/local.yaml` if it exists; None for neither."""
    return conf if conf is not None else LOCAL if LOCAL.exists() else None


def shipped_conf() -> Path:
    """Return the directory of the configuration that is shipped with oncelake."""
    packaged = Path(__file__).parents[1] / "_conf"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "conf"


def conf_or_shipped(conf: Path | None) -> Path:
    """Return the file that is read: the named one, `conf/local.yaml` if it exists, or the shipped one."""
    return conf_file(conf) or shipped_conf() / LOCAL.name


def format_places(conf: Path | None) -> list[Path]:
    """Return the directories in which a format is looked up by name, in order."""
    file = conf_file(conf)
    beside = [file.parent / "formats"] if file is not None else []
    return [*beside, LOCAL.parent / "formats", shipped_conf() / "formats"]
