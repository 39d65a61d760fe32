"""Check before Spark starts whether a run has anything to do, and whether its backlog is small.

Most starts by a schedule find no new file, and Spark's start would be nearly all of their time. Without Spark, the
format, the suites and the declarations cannot be checked. So a run records which configuration has passed the checks,
and only a run with the same configuration may end without Spark.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pyspark

from oncelake.bronze.settings import SECRETS
from oncelake.common.version import __version__
from oncelake.engine.chain import Chain, StageState, needs_spark
from oncelake.engine.log_retention import fading
from oncelake.engine.preflight import check_tables
from oncelake.engine.start_gate import refuse_unless_startable
from oncelake.exactly_once.files import files_at

# The file below the lake's root with the hash of the last configuration that passed every check before a start.
NAME = "_preflight.json"
# The format version of the file.
_FORM = 1
# A backlog of at most this many bytes of text is small: up to there, Java's quick compiler alone is faster.
SMALL_BACKLOG = 64 * 1024**2
# These settings are not needed for the checks. They can hold passwords, so they are not part of the hash.
_LEFT_OUT: Any = {
    "source": set(SECRETS),
    "sources": {"__all__": set(SECRETS)},
    "serving": {"url", "password"},
    "spark": {"conf"},
    "alerts": True,
}


def record_preflight(chain: Chain) -> None:
    """Record that the chain's configuration has passed every check; call it while the lake's lock is held."""
    files, path, text = files_at(chain.lake.root, chain.spark), _path(chain), _text(chain)
    if not needs_spark(chain.settings) and files.read(path) != text:
        files.write(path, text)


def passed_preflight(chain: Chain) -> bool:
    """Return True if exactly this configuration has passed the checks; False if only Spark can read the lake."""
    return not needs_spark(chain.settings) and files_at(chain.lake.root, None).read(_path(chain)) == _text(chain)


def nothing_new(chain: Chain, states: Sequence[StageState]) -> bool:
    """Return True if no stage of a chain that has passed the checks has anything to do; False if a query must find out.

    Raises:
        ConfigError: a table's properties do not fit.
        StateError: a stage would lose or repeat rows, or a rebuild or replay is unfinished.
    """
    check_tables(chain)
    refuse_unless_startable(chain, states)  # guard: refusals-without-spark
    if fading(chain):  # guard: fading-table-is-work
        return False
    return all(state.up_to_date for state in states)  # guard: all-stages-up-to-date


def has_small_backlog(states: Sequence[StageState]) -> bool:
    """Return True if the sources are known to hold at most `SMALL_BACKLOG` new bytes, and no later stage is behind."""
    first = [state for state in states if not state.stage.reads]
    waiting = [state.source.waiting_bytes(state.first.end) for state in first]
    settled = all(
        state.up_to_date or state.source.backlog(state.first.end).count == 0 for state in states if state.stage.reads
    )
    return None not in waiting and sum(size or 0 for size in waiting) <= SMALL_BACKLOG and settled


def _path(chain: Chain) -> str:
    return f"{chain.lake.root}/{NAME}"


def _text(chain: Chain) -> str:
    """Return the record of a configuration: a hash of settings, format, suites, and of the versions that check them."""
    parts = (
        __version__,
        pyspark.__version__,
        chain.settings.model_dump_json(exclude=_LEFT_OUT),
        *(parser.declared.model_dump_json() for parser in chain.silver.parsers.values()),
        *([chain.silver.transform.code.identity.model_dump_json()] if chain.silver.transform is not None else []),
        *sorted(f"{table}: {suite.declared.model_dump_json()}" for table, suite in chain.suites.items()),
    )
    return json.dumps({"form": _FORM, "passed": hashlib.sha256("\n".join(parts).encode()).hexdigest()})
