"""`oncelake init` and `schema`: write the files of a new project, and the JSON Schema for editors."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oncelake.cli.program import Json, Verbose, reported, warning
from oncelake.common.errors import OncelakeError
from oncelake.common.json_line import result_line
from oncelake.common.wording import count_of, listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from oncelake.lab.project.kinds import LogKind, LogKinds


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory for the files; it may be new.")],
    sample: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="LOGS",
            help="A log file, or a directory of logs: find each kind's format, or draft one, and read that directory.",
        ),
    ] = None,
    kafka: Annotated[
        str | None, typer.Option("--kafka", metavar="BOOTSTRAP", help="Read a topic of these servers: host:port,...")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="With --kafka: the topic.")] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Write the files of a new project.

    The files are a commented configuration, a log format if none of the shipped ones fits, a quality suite, a systemd
    unit and a .gitignore. No file is overwritten.
    """
    with reported(as_json=as_json, verbose=verbose):
        from oncelake.lab.project.write import NewSource, check_new, write_project

        check_new(directory)
        NewSource(None, kafka, topic)
        if sample is None and kafka is None and not as_json and sys.stdin.isatty() and sys.stdout.isatty():
            sample = _asked_sample()
    with reported(as_json=as_json, verbose=verbose, changes=True) as console:
        from oncelake.engine.conf_file import format_places
        from oncelake.lab.project.kinds import kinds_in

        sample_logs, logs = None, None
        if sample is not None:
            sample_logs = kinds_in(sample, format_places(None))
            if not as_json:
                _show_kinds(console, sample_logs)
            if not sample_logs.kinds:
                raise OncelakeError(_no_format(sample, sample_logs.left_out))  # guard: init-needs-format
            for file, reason in sample_logs.left_out.items():
                warning(f"{file} is left out: {reason}", as_json=as_json)
            if kafka is None:
                place = (sample if sample.is_dir() else sample.parent).resolve()
                logs = None if directory.resolve().is_relative_to(place) else str(place)
        written = write_project(directory, NewSource(logs, kafka, topic), sample_logs)
        if as_json:
            files, kept_files = (list(map(str, paths)) for paths in (written.files, written.kept))
            kinds = (
                [{"source": kind.name, **kind.evidence.to_dict(), "format": kind.format} for kind in sample_logs.kinds]
                if sample_logs
                else []
            )
            name = sample_logs.kinds[0].format if sample_logs is not None else "default"
            left_out = {str(file): why for file, why in sample_logs.left_out.items()} if sample_logs is not None else {}
            fields = {"files": files, "kept": kept_files, "format": name, "kinds": kinds, "left_out": left_out}
            typer.echo(result_line("init", {**fields, "next": written.next}))
            return
        for path in written.files:
            console.print(f"wrote {path}")
        for path in written.kept:
            console.print(f"kept {path}, which was there already")
        console.print(f"next: {written.next}")


def _asked_sample() -> Path | None:
    """Ask for a sample; Ctrl-D ends the command as Ctrl-C does."""
    try:
        answer = typer.prompt("A log file or a directory of logs (Enter: none yet)", default="", show_default=False)
    except typer.Abort:
        typer.echo()
        raise KeyboardInterrupt from None
    return Path(answer).expanduser() if answer else None


def _show_kinds(console: "Console", logs: "LogKinds") -> None:
    for kind in logs.kinds:
        _show_kind(console, kind)
    if logs.has_fatal:
        console.print("gold.fatal_log is for the FATAL lines, which gold.error_log does not count")


def _show_kind(console: "Console", kind: "LogKind") -> None:
    from oncelake.cli.log_format import show_evidence

    evidence = kind.evidence
    console.print(f"{evidence.share:.1%} of {evidence.counted} of {kind.files[0]} parse as {kind.format}")
    if len(kind.files) > 1:
        console.print(
            f"  and {count_of(len(kind.files) - 1, 'more file')}: {listed(file.name for file in kind.files[1:])}"
        )
    show_evidence(console, evidence)
    for assumption in kind.assumptions:
        console.print(f"  assumed: {assumption}")
    if kind.draft is None and kind.declared.assumes_utc:
        console.print("  assumed: times without a zone are read as UTC")


def _no_format(sample: Path, left_out: "Mapping[Path, str]") -> str:
    from oncelake.lab.project.kinds import NO_TEXT

    files = [f"{file}: {reason}" if file != sample else reason for file, reason in left_out.items()]
    reasons = listed(files, separator="; ")
    if all(reason == NO_TEXT for reason in left_out.values()):
        return f"no format reads {sample}, so nothing was written: {reasons}; name a log, or a directory of logs"
    return (
        f"no format reads {sample}, so nothing was written: {reasons}. Write a format as docs/formats.md shows, and "
        "try it: oncelake format try FILE my-format.yaml. Then run oncelake init without --from, and set source.format"
    )


def schema(verbose: Verbose = False) -> None:
    """Print the JSON Schema of the configuration, for editors."""
    with reported(as_json=False, verbose=verbose):
        from oncelake.engine.json_schema import settings_schema

        typer.echo(json.dumps(settings_schema(), indent=2))
