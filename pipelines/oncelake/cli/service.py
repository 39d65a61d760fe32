"""`oncelake install-service`: write the systemd units that run a configuration."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from oncelake.cli.program import Conf, Json, Verbose, reported
from oncelake.common.errors import ConfigError
from oncelake.common.json_line import result_line


def install_service(
    conf: Conf = None,
    run_as: Annotated[
        str | None,
        typer.Option("--run-as", metavar="USER", help="User that may read the logs and write the lake."),
    ] = None,
    groups: Annotated[
        list[str] | None, typer.Option("--group", metavar="GROUP", help="Further group of that user. Repeatable.")
    ] = None,
    own: Annotated[bool, typer.Option("--user", help="Write a unit of your own systemd, which needs no root.")] = False,
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="TIME", help="Run once, and again TIME after each run: '10 minutes'."),
    ] = None,
    writes: Annotated[
        list[Path] | None,
        typer.Option("--write", metavar="DIR", help="Further directory that it may write. Repeatable."),
    ] = None,
    secrets: Annotated[
        Path | None, typer.Option("--secrets", metavar="FILE", help="File with secrets.", show_default="secrets.env")
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the units.")] = "oncelake",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the units; change nothing.")] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Write the systemd unit that runs a configuration.

    The service may write the lake, its cache and temporary files, and nothing else. It runs in the current directory,
    which relative paths in the configuration start from. It starts again after a failure, and ends between two
    batches. What would keep it from working is refused: a user that may not read the logs, settings that only this
    shell has, a file of secrets that others can read.
    """
    with reported(as_json=as_json, verbose=verbose) as console:
        from pydantic import TypeAdapter, ValidationError

        from oncelake.common.models import Duration, one_line
        from oncelake.lab.project.service import SYSTEM, ServiceOptions, service_of, write_units

        if own and (run_as or groups):
            raise ConfigError("--user is a service of this user; leave out --run-as and --group")
        if not own and run_as is None and os.geteuid() == 0:
            raise ConfigError("root: name the user that the service runs as, such as --run-as oncelake")
        try:
            wait = TypeAdapter(Duration).validate_python(every) if every is not None else None
        except ValidationError as error:
            raise ConfigError(f"--every {every}: {one_line(error)}; write it as '10 minutes'") from None
        options = ServiceOptions(
            None if own else run_as or _this_user(), tuple(groups or ()), wait, tuple(writes or ()), secrets, name
        )
        service = service_of(conf, options)
        units = service.units()
        unit, manager = [*units][-1], "systemctl --user" if own else "systemctl"
        steps = f"{manager} daemon-reload && {manager} enable --now {unit}"
        if own:
            steps = f"{steps} && loginctl enable-linger"
        if dry_run:
            text = (
                result_line("install-service", {"units": units, "next": steps})
                if as_json
                else "\n".join(units.values()).rstrip("\n")
            )
            typer.echo(text)
            return
        home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        files = write_units(service, home / "systemd/user" if own else SYSTEM)
        if as_json:
            typer.echo(result_line("install-service", {"files": [*map(str, files)], "next": steps}))
            return
        for file in files:
            console.print(f"wrote {shlex.quote(str(file))}")
        console.print(f"next: {steps}")


def _this_user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise ConfigError(f"the user with the number {os.geteuid()} has no name; name one with --run-as") from None
