"""This is where the command is that tells why lines are in quarantine."""

import json

import typer
from rich.markup import escape

from pipelines.commands.options import DEFAULT_CONF, Conf, Json, Sets, Verbose
from pipelines.configuration import configured
from pipelines.lake import QUARANTINE
from pipelines.program import reported, spark_session
from pipelines.quality.reasons import Reason, reasons
from pipelines.survey import survey


def quarantine(conf: Conf = DEFAULT_CONF, sets: Sets = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Tell which rules the lines in quarantine broke, how many lines, and some of them."""
    with reported(as_json=as_json, verbose=verbose) as console:
        settings, log_format = configured(conf, sets or [])
        with spark_session(settings.spark, verbose=verbose) as spark:
            chain = survey(settings, log_format, spark)
            there, path = bool(chain.ledger(QUARANTINE).versions()), chain.lake.path(QUARANTINE)
            rows = spark.read.format("delta").load(path) if there else None
            lines, found = (rows.count(), reasons(rows)) if rows is not None else (0, [])
        if as_json:
            typer.echo(json.dumps({"lines": lines, "reasons": [each.to_dict() for each in found]}))
            return
        console.print(f"{QUARANTINE}: {_lines(lines)}", highlight=False)
        for each in found:
            console.print(escape(_sentence(each)), highlight=False, soft_wrap=True)
            for line in each.samples:
                console.print(f"    {escape(line)}", highlight=False, soft_wrap=True)


def _sentence(reason: Reason) -> str:
    times = f"{reason.first:%Y-%m-%d %H:%M}"
    if reason.first != reason.last:
        times += f" to {reason.last:%Y-%m-%d %H:%M}"
    return f"{reason.rule} ({reason.column}): {_lines(reason.lines)}, taken in {times}"


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"
