"""Collect the names that programs rely on: commands, options, settings, metrics, states; and fingerprints of rules."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import StructType
from typer.main import get_command

from oncelake.bronze.mask import COLUMNS
from oncelake.bronze.schema import BRONZE
from oncelake.cli.app import app
from oncelake.engine.chain import chain_of
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.configuration import configured
from oncelake.engine.settings import Settings
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.state import State
from oncelake.observe.audit.results import RESULTS
from oncelake.observe.metrics import METRICS
from oncelake.observe.trace.lineage import At
from oncelake.silver.schema import QUARANTINE, SILVER
from oncelake.sources.directory.census import Fault
from tests.support.setting_keys import keys


def names() -> dict[str, Any]:
    """Return all of these names."""
    return {
        "commands": dict(_commands(get_command(app), "oncelake")),
        "settings": [key for key, _ in keys(Settings)],
        "metrics": {metric.name: [metric.kind, metric.unit, *metric.attributes] for metric in METRICS},
        "states": [each.value for each in State],
        "faults": [each.value for each in Fault],
        "events": [each.value for each in CommitKind],
        "places of a line": [each.value for each in At],
        "columns": {
            "bronze": BRONZE.jsonValue(),
            "bronze, masked": StructType(list(COLUMNS)).jsonValue(),
            "silver": SILVER.jsonValue(),
            "quarantine": QUARANTINE.jsonValue(),
            "results": RESULTS.jsonValue(),
        },
        "fingerprints": dict(_fingerprints()),
    }


def _commands(command: Any, name: str) -> Iterator[tuple[str, list[str]]]:
    yield name, sorted(option for param in command.params for option in (*param.opts, *param.secondary_opts))
    for inner, each in getattr(command, "commands", {}).items():
        yield from _commands(each, f"{name} {inner}")


def _fingerprints() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the stages' rules under each shipped format, with everything that determines them."""
    conf = shipped_conf()
    served = ("serving.url=sqlite:///served.db", "serving.tables=[error_log]", "lake.root=lake", "source.path=logs")
    for form in sorted(path.stem for path in (conf / "formats").glob("*.yaml")):
        sets = [*served, f"source.format={form}", f"quality.expectations={conf / 'expectations'}"]
        stages = chain_of(*configured(conf / "local.yaml", sets)).stages
        yield form, {stage.name: stage.rules for stage in stages}
