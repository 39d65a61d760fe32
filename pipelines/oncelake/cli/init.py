"""`oncelake init` and `schema`: write the files of a new project, and what an editor completes them with."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oncelake.cli.program import Json, Verbose, reported, warning

if TYPE_CHECKING:
    from oncelake.lab.project.write import Learned


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory for the files; it may be new.")],
    sample: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="LOGS",
            help="A log file, or a directory of logs: find its format, or draft one, and read that directory.",
        ),
    ] = None,
    kafka: Annotated[
        str | None, typer.Option("--kafka", metavar="BOOTSTRAP", help="Read a topic of these servers: host:port,...")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="With --kafka: the topic.")] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Write a configuration and what belongs to it.

    The files are a commented configuration, a log format if none of the shipped ones fits, a quality suite, a systemd
    unit and a .gitignore. No file is overwritten.
    """
    with reported(as_json=as_json, verbose=verbose) as console:
        from oncelake.lab.project.write import Learned, NewSource, check_new, sample_in, write_project

        check_new(directory)
        NewSource(None, kafka, topic)
        if sample is None and kafka is None and not as_json and sys.stdin.isatty() and sys.stdout.isatty():
            asked = typer.prompt("A log file or a directory of logs (Enter: none yet)", default="", show_default=False)
            sample = Path(asked).expanduser() if asked else None
        learned, logs, inside = Learned(), None, None
        if sample is not None:
            file = sample_in(sample)
            learned = _learned(file, verbose=verbose)
            if learned.share == 0:
                told = f"no known format parses a line of {file}; write one as docs/formats.md shows"
                warning(f"{told}, and set source.format", as_json=as_json)
            if kafka is None:
                place = (sample if sample.is_dir() else sample.parent).resolve()
                logs = None if directory.resolve().is_relative_to(place) else str(place)
                inside = file if logs is None else None
        written = write_project(directory, NewSource(logs, kafka, topic), learned, inside)
        if as_json:
            files, kept = ([str(each) for each in some] for some in (written.files, written.kept))
            typer.echo(json.dumps({"files": files, "kept": kept, "format": learned.format, "next": written.next}))
            return
        if learned.share:
            console.print(f"{learned.share:.1%} of the lines of {file} parse as {learned.format}")
        for each in written.files:
            console.print(f"wrote {each}")
        for each in written.kept:
            console.print(f"kept {each}, which was there already")
        console.print(f"next: {written.next}")


def schema(verbose: Verbose = False) -> None:
    """Print the JSON Schema of the configuration, for editors."""
    with reported(as_json=False, verbose=verbose):
        from oncelake.engine.json_schema import settings_schema

        typer.echo(json.dumps(settings_schema(), indent=2))


def _learned(file: Path, *, verbose: bool) -> "Learned":
    from oncelake.common.spark.session import spark_session
    from oncelake.common.spark.settings import SparkSettings
    from oncelake.lab.project.write import learn

    with spark_session(SparkSettings(), verbose=verbose, quick=True) as spark:
        return learn(spark, file)
