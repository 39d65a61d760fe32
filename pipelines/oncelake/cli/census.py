"""`oncelake census`: account for every source file, and resolve faults."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from oncelake.cli import complete
from oncelake.cli.plain_help import PlainTyper
from oncelake.cli.program import Conf, Json, Quiet, Sets, Verbose, opened, refuse_options_before
from oncelake.common.errors import OncelakeError
from oncelake.common.json_line import result_line
from oncelake.common.wording import shown_path

if TYPE_CHECKING:
    from oncelake.lakehouse import Lakehouse
    from oncelake.sources.directory.census import Census
    from oncelake.sources.directory.resolve import Resolve

census = PlainTyper(invoke_without_command=True, no_args_is_help=False)

Files = Annotated[list[str], typer.Argument(metavar="FILE", help="Files at fault, as oncelake census prints them.")]
SourceName = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="NAME",
        help="Only this source.",
        show_default="all that have files",
        autocompletion=complete.sources,
    ),
]
Listed = Annotated[bool, typer.Option("--list", help="List every file with its state, not only those at fault.")]


@census.callback()
def account(
    context: typer.Context,
    conf: Conf = None,
    sets: Sets = None,
    source: SourceName = None,
    every: Listed = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Check that bronze has every file of the sources, whole.

    For complete and growing files; `oncelake prove` accounts for topics. A file is at fault if it is not as bronze read
    it, or if no run would read it. Exit code 1 if there is one. The subcommands resolve it.
    """
    if context.invoked_subcommand is not None:
        refuse_options_before(context)
        return
    with opened(conf, sets, as_json=as_json, verbose=verbose, quiet=quiet) as (console, lake):
        objects: dict[str | None, dict[str, object]] = {}
        for name, checked in _censuses(lake, source):
            if isinstance(checked, OncelakeError):
                objects[name] = {"error": str(checked), "holds": False}
                if not as_json:
                    console.print(f"files of {name}: not checked: {checked}")
                continue
            result, stage = checked[0], checked[1].ingestion.stage
            objects[name] = _object(result, stage)
            if not as_json:
                _say(console, result, stage, every=every, source=name)
        holds = all(of_source["holds"] for of_source in objects.values())
        if as_json:
            fields = objects.get(None, {"sources": objects, "holds": holds})
            typer.echo(result_line("census", fields, holds=holds))
    if not holds:
        raise typer.Exit(1)


@census.command()
def accept(
    files: Files,
    conf: Conf = None,
    sets: Sets = None,
    source: SourceName = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Accept that lines of files are not counted.

    This is recorded, and the proof no longer fails for it. If such a file changes again, that is a new fault.
    """
    place = (conf, sets, source)
    _resolve("accept", files, place, as_json=as_json, verbose=verbose)


@census.command()
def exclude(
    files: Files,
    conf: Conf = None,
    sets: Sets = None,
    source: SourceName = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Exclude files by renaming them to start with a dot.

    Files with such a name are not read. A file is refused if bronze has lines of it.
    """
    place = (conf, sets, source)
    _resolve("exclude", files, place, as_json=as_json, verbose=verbose)


@census.command()
def reread(
    files: Files,
    conf: Conf = None,
    sets: Sets = None,
    source: SourceName = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Rename files, so that the next run reads all their lines.

    They get a new name, because Spark never reads a name twice. You can also name files that you accepted earlier. A
    file that begins with the lines that bronze has of it is refused, because these lines would count twice.
    """
    place = (conf, sets, source)
    _resolve("reread", files, place, as_json=as_json, verbose=verbose)


def _resolve(
    command: Literal["accept", "exclude", "reread"],
    files: list[str],
    place: tuple[Path | None, list[str] | None, str | None],
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    conf, sets, source = place
    with opened(conf, sets, as_json=as_json, verbose=verbose, changes=True) as (_, lake):
        from oncelake.sources.directory import resolve

        work = {"accept": resolve.accept, "exclude": resolve.exclude, "reread": resolve.reread}[command]
        before = {"exclude": resolve.excluded_before, "reread": resolve.reread_before}.get(command, lambda _: None)
        earlier = {name: line for name in files if (line := before(name)) is not None}
        results = [result for _, result in _censuses(lake, source)]
        errors = [str(result) for result in results if isinstance(result, OncelakeError)]
        censuses = [result for result in results if not isinstance(result, OncelakeError)]
        resolving = {fault: source for result, source in censuses for fault in (*result.faults, *result.accepted)}
        faults = resolve.chosen([name for name in files if name not in earlier], resolving, errors)
        done = list[str]()
        for line in chain(earlier.values(), work([(resolving[fault], fault) for fault in faults]) if faults else ()):
            done.append(line)
            if not as_json:
                typer.echo(line)
        if as_json:
            typer.echo(result_line(f"census {command}", {"done": done}))


def _censuses(
    lake: "Lakehouse", source: str | None
) -> Iterator[tuple[str | None, "tuple[Census, Resolve] | OncelakeError"]]:
    """Yield the census of one source; or that of each source by its name, or why it has none."""
    from oncelake.engine.sources import sources_of_files

    names = sources_of_files(lake.settings) if source is None else []
    if len(names) < 2:
        with lake.census(source) as checked:
            yield None, checked
        return
    for name in names:
        try:
            with lake.census(name) as checked:
                pass
        except OncelakeError as error:
            yield name, error
        else:
            yield name, checked


def _say(console: Console, result: "Census", stage: str, *, every: bool, source: str | None) -> None:
    from oncelake.sources.directory.census import fault_message

    ignored = f"{len(result.hidden):,} hidden, {len(result.empty):,} empty"
    counts = (
        f"{len(result.read):,} read whole, {len(result.waiting):,} waiting, {ignored}, {len(result.faults):,} at fault"
    )
    gone = f"; {len(result.gone):,} read earlier and deleted since" if result.gone else ""
    again = f"; {len(result.renamed):,} read under an earlier name" if result.renamed else ""
    copies = f"; {len(result.copies):,} not read, as copies" if result.copies else ""
    of_source = f"files of {source}" if source is not None else "files"
    lines = [f"{of_source}: {counts}{gone}{again}{copies}"]
    for state, paths in _paths(result).items() if every else ():
        lines += [f"{state}: {shown_path(path)}" for path in paths]
    lines += [f"accepted: {shown_path(file.path)}: {file.fault}" for file in result.accepted]
    lines += [f"{fault.fault}: {fault_message(fault, stage)}" for fault in result.faults]
    for line in lines:
        console.print(line)


def _paths(result: "Census") -> dict[str, list[str]]:
    return {
        "read whole": sorted(result.read),
        "waiting": sorted(file.path for file in result.waiting),
        "hidden": sorted(file.path for file in result.hidden),
        "empty": sorted(file.path for file in result.empty),
        "gone": result.gone,
        "renamed": sorted(result.renamed),
        "copies": sorted(result.copies),
    }


def _object(result: "Census", stage: str) -> dict[str, object]:
    from oncelake.sources.directory.census import fault_message

    entries = [
        {**asdict(fault), "path": shown_path(fault.path), "resolve": fault_message(fault, stage)}
        for fault in result.faults
    ]
    accepted = [{**asdict(file), "path": shown_path(file.path)} for file in result.accepted]
    files = {state.replace(" ", "_"): list(map(shown_path, paths)) for state, paths in _paths(result).items()}
    return {"files": files, "faults": entries, "accepted": accepted, "holds": not result.faults}
