"""Write the systemd units that run oncelake with no more rights than a configuration needs."""

import grp
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import oncelake
from oncelake.common.errors import ConfigError
from oncelake.common.lake import is_local, place
from oncelake.common.wording import printable
from oncelake.engine.conf_file import LOCAL
from oncelake.engine.configuration import CONF, configured
from oncelake.engine.settings import ENV_PREFIX, Settings
from oncelake.lab.project.templates import is_plain, rendered
from oncelake.serving.settings import is_secret_reference
from oncelake.sources.directory.listing import above

SECRETS = "secrets.env"
SYSTEM = Path("/etc/systemd/system")
# The first words of each unit that oncelake writes; it replaces no other.
_MARK = "# Written by oncelake."
_UNIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_VARIABLE = re.compile(r"\s*([A-Za-z_]\w*)\s*=(.*)", re.ASCII)
_TEST = "/usr/bin/test"
_HOMES, _TEMPORARY = ("/home", "/root", "/run/user"), ("/tmp", "/var/tmp")
# The first systemd that waits longer before each further restart. Source: systemd.service(5), RestartSteps=.
_BACKS_OFF = 254


@dataclass(frozen=True)
class ServiceOptions:
    """What the user chooses for a service.

    Attributes:
        user: the user that it runs as; None for a service of the calling user's own manager.
        groups: further groups of that user.
        every: how long a timer waits between two runs; None for a run that goes on.
        writes: directories that it may write besides the lake, such as that of a sink.
        secrets: the file with secrets; None for secrets.env in the service's directory.
        name: the name of the units.
    """

    user: str | None = None
    groups: tuple[str, ...] = ()
    every: timedelta | None = None
    writes: tuple[Path, ...] = ()
    secrets: Path | None = None
    name: str = "oncelake"


@dataclass(frozen=True)
class Service:
    """A service that runs one configuration.

    Attributes:
        directory: where it runs, as relative paths in the configuration expect.
        conf: the configuration.
        options: what the user chooses.
        writes: the directories that it may write, other than its cache and temporary files.
        reads: the directories that it must be able to read, and may not write.
    """

    directory: Path
    conf: Path
    options: ServiceOptions
    writes: tuple[Path, ...]
    reads: tuple[Path, ...] = ()

    @cached_property
    def program(self) -> list[str]:
        """The words with which the unit starts this oncelake."""
        script = Path(sys.executable).with_name("oncelake")
        words = [str(script)] if script.exists() else [sys.executable, "-m", "oncelake"]
        return words if is_plain(words[0]) else ["/usr/bin/env", *words]

    def units(self, *, copied: bool = False) -> dict[str, str]:
        """Return the text of each unit by its file name.

        Args:
            copied: True if the user copies the unit from the directory to systemd's.

        Raises:
            ConfigError: a path has a character that a unit cannot hold.
        """
        options, java_home = self.options, os.environ.get("JAVA_HOME")
        needed = [*self.writes, *self.reads, self.directory, self.conf, *_installation(), Path(java_home or "/")]
        for path in needed:
            if not str(path).isprintable():
                raise ConfigError(f"{str(path)!r} has a character that no systemd unit can hold; rename it")
        values = {
            "copied": copied,
            "name": options.name,
            "user": options.user,
            "groups": options.groups,
            "every": f"{options.every.total_seconds():g}" if options.every is not None else None,
            "directory": str(self.directory),
            "secrets": str(options.secrets or self.directory / SECRETS),
            "java_home": java_home,
            "program": self.program,
            "conf": str(self.conf),
            "backs_off": _systemd_version() >= _BACKS_OFF,
            "writes": [*map(str, self.writes)],
            "reads": [*map(str, self.reads)],
            "in_home": options.user is None or any(_inside(path, _HOMES) for path in needed),
            "in_tmp": any(_inside(path, _TEMPORARY) for path in needed),
        }
        kinds = ("service", "timer") if options.every is not None else ("service",)
        return {f"{options.name}.{kind}": rendered(f"oncelake.{kind}.j2", values) for kind in kinds}


def service_of(conf: Path | None, options: ServiceOptions) -> Service:
    """Return the service of a configuration, for the current directory.

    Args:
        conf: the configuration; None for the one that other commands would read.
        options: what the user chooses.

    Raises:
        ConfigError: the configuration is refused, the service would read other settings than this shell, or its user
            may not read or write what it must.
    """
    file = conf or (Path(os.environ[CONF]) if os.environ.get(CONF) else LOCAL)
    if not file.is_file():
        raise ConfigError(f"there is no configuration {file}, and a service needs one; write one: oncelake init DIR")
    if not _UNIT_NAME.fullmatch(options.name):
        raise ConfigError(f"--name {options.name}: expected letters, digits, _, . and -, as in oncelake-web")
    if options.every is not None and options.every < timedelta(seconds=1):
        raise ConfigError("--every: expected a second or more, as in '10 minutes'")
    secrets, others = (options.secrets or Path(SECRETS)).absolute(), tuple(path.absolute() for path in options.writes)
    with _environment(_secrets(secrets)):
        settings, _ = configured(file, [])
    service = Service(
        Path.cwd(),
        file.absolute(),
        replace(options, secrets=secrets),
        (*_written(settings, others), *others),
        tuple(_read(settings)),
    )
    _refuse_unless_allowed(service)
    return service


def write_units(service: Service, into: Path) -> list[Path]:
    """Write the units of a service, and create the directories that it writes; return the units.

    Raises:
        ConfigError: a unit of the name is not oncelake's, an earlier timer is there, or the directory cannot be
            written.
    """
    files = {into / name: text for name, text in service.units().items()}
    timer = into / f"{service.options.name}.timer"
    if timer not in files and timer.exists():
        raise ConfigError(
            f"{timer} would go on starting {service.options.name}.service, which is to run all the time: disable and "
            "remove the timer, or name another service with --name"
        )
    for file in files:
        if file.exists() and not file.read_text(encoding="utf-8", errors="replace").startswith(_MARK):
            # guard: only-own-unit-is-replaced
            raise ConfigError(f"{file} was not written by oncelake; remove it, or name another one with --name")
    try:
        for path in service.writes:
            _make(path, service.options.user)
        into.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{error.filename} cannot be written: {error.strerror}; run it as root, for a service of your own add "
            "--user, or print the unit with --dry-run"
        ) from None
    return [*files]


def _make(path: Path, user: str | None) -> None:
    """Create a directory that the service writes, with the owner that it needs; leave one that exists as it is."""
    missing = [*takewhile(lambda parent: not parent.exists(), (path, *path.parents))]
    for directory in reversed(missing):
        directory.mkdir()
        if user is not None and os.geteuid() == 0:
            shutil.chown(directory, user, pwd.getpwnam(user).pw_gid)


def _written(settings: Settings, others: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the directories that a run writes."""
    lake = settings.places()
    if lake.catalog is not None and not others:
        raise ConfigError(
            f"lake.catalog {lake.catalog}: only the catalog knows where its tables are; name their directory with "
            "--write, or use lake.root"
        )
    if is_local(lake.root):
        yield Path(lake.root)
    if is_local(lake.checkpoints) and not lake.per_host and not Path(lake.checkpoints).is_relative_to(lake.root):
        yield Path(lake.checkpoints)
    if (scratch := settings.spark.conf.get("spark.local.dir")) is not None:
        yield from (Path(place(path)) for path in scratch.split(","))
    url = settings.serving.url.get_secret_value() if settings.serving.url is not None else ""
    if url.startswith("sqlite") and not is_secret_reference(url):
        from oncelake.serving.database import parse_url  # noqa: PLC0415 - SQLAlchemy, which only a served lake needs

        if (database := parse_url(url).database) not in (None, "", ":memory:"):
            yield Path(str(database)).absolute().parent


def _read(settings: Settings) -> Iterator[Path]:
    """Yield the directories of the sources that read files of this machine; of a pattern, the part that is fixed."""
    paths = (kind.directory for kind in settings.kinds().values())
    for path in paths:
        if path is not None and is_local(path):
            yield Path(above(place(path)))


def _secrets(file: Path) -> dict[str, str]:
    """Return the variables of a file with secrets.

    Raises:
        ConfigError: others than its owner may read it, it cannot be read, or this shell has settings that it lacks.
    """
    secrets = {}
    if file.exists():
        if file.stat().st_mode & 0o077:
            # guard: secrets-are-private
            raise ConfigError(f"{file} can be read by others than its owner: chmod 600 {shlex.quote(str(file))}")
        try:
            matches = map(_VARIABLE.fullmatch, file.read_text(encoding="utf-8").splitlines())
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file} cannot be read: {error}") from None
        secrets = {match[1]: match[2].strip().strip("\"'") for match in matches if match is not None}
    own = sorted(name for name in os.environ if name.startswith(ENV_PREFIX) and name != CONF and name not in secrets)
    if own:
        # guard: service-has-same-settings
        raise ConfigError(
            f"{', '.join(own)}: set in this shell, and the service would not have it; put it into {file}, one "
            "NAME=value a line, or unset it"
        )
    return secrets


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Add variables to the environment until the block ends."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _refuse_unless_allowed(service: Service) -> None:
    """Raise ConfigError if the service's user may not read or write what it must, as far as this user can find out."""

    def refuse_unless(*command: str, what: str) -> None:
        if (why := _failure(service, groups, command)) is not None:
            # guard: service-user-may-read
            raise ConfigError(
                f"the user {service.options.user or 'of this shell'} may not {what}{why}; change its rights, name "
                "another user with --run-as, or add a group that may: --group adm"
            )

    groups = [*_numbers(service)]
    for path in service.reads:
        if not path.exists():
            raise ConfigError(f"{path}: there is no such directory, and the service would read it")
    refuse_unless(*service.program, "--version", what=f"run {shlex.join(service.program)}")
    refuse_unless(_TEST, "-r", str(service.conf), what=f"read {service.conf}")
    for path in service.reads:
        for flag in ("-r", "-x"):
            refuse_unless(_TEST, flag, str(path), what=f"read {path}")
    for path in service.writes:
        if path.exists():
            refuse_unless(_TEST, "-w", str(path), what=f"write {path}")


def _numbers(service: Service) -> Iterator[int]:
    """Yield the groups of the service's user by number.

    Raises:
        ConfigError: there is no such user or group.
    """
    name = service.options.user
    if name is not None:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            raise ConfigError(
                f"--run-as {name}: there is no such user; add one: useradd --system {shlex.quote(name)}"
            ) from None
        yield from os.getgrouplist(name, user.pw_gid)
    for group in service.options.groups:
        try:
            yield grp.getgrnam(group).gr_gid
        except KeyError:
            raise ConfigError(f"--group {group}: there is no such group") from None


def _failure(service: Service, groups: list[int], command: Sequence[str]) -> str | None:
    """Run a command as the service's user; return what it says if it fails. None if not, or nobody here can try."""
    user = pwd.getpwnam(service.options.user) if service.options.user is not None else None
    other: dict[str, Any] = {}
    if user is not None and user.pw_uid != os.geteuid():
        if os.geteuid() != 0:
            return None
        # root's own environment may have secrets, which the processes of that user could read
        environment = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL")}
        other = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups, "cwd": "/", "env": environment}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, **other)
    except OSError as error:
        return f": {error.strerror}"
    if done.returncode == 0:
        return None
    return f": {printable(done.stderr.strip().splitlines()[-1])}" if done.stderr.strip() else ""


def _installation() -> Iterator[Path]:
    """Yield where this oncelake and its Python are."""
    yield from (Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve())
    yield Path(str(oncelake.__file__))


def _inside(path: Path, places: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(place) or path.resolve().is_relative_to(place) for place in places)


def _systemd_version() -> int:
    """Return the version of this machine's systemd; 0 if there is none."""
    program = shutil.which("systemctl")
    if program is None:
        return 0
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"systemd (\d+)", version)
    return int(match[1]) if match else 0
