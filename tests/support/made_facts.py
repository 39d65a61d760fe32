"""Make the facts of a small lake by hand, for tests of pages without Spark."""

from dataclasses import replace

from oncelake.exactly_once.link import Link
from oncelake.observe.alerts.state import AlertStatus
from oncelake.observe.report.facts import (
    BatchFacts,
    ChangeFacts,
    Facts,
    LateFacts,
    LinesFacts,
    MeasureFacts,
    MessageFacts,
    PeakFacts,
    PeriodFacts,
    ProofFacts,
    ReasonFacts,
    StageFacts,
    TableFacts,
)

AT = 1_795_370_000_000
MINUTE = 1_501_423_740

PERIOD = PeriodFacts(
    (MINUTE - 7_200) * 1000,
    (MINUTE + 7_200) * 1000,
    (MINUTE - 21_600) * 1000,
    "gold.log_volume",
    60,
    (
        ChangeFacts("Lines", "all lines that count", "lines", "log time", 180, 120),
        ChangeFacts("Errors", "lines of level ERROR or FATAL", "lines", "log time", 10, 0),
        ChangeFacts("Share of errors", "errors of all lines", "percent", "log time", 5.556, 0.0),
        ChangeFacts("In quarantine", "lines that broke a rule; they count nowhere", "lines", "ingest time", 5, 20),
        ChangeFacts("Freshness, median", "until gold", "seconds", "commit time", 2.5, None),
        ChangeFacts("Freshness, longest", "until gold", "seconds", "commit time", 8.0, 8.0),
    ),
    (
        PeakFacts(
            *(MINUTE, 60, 10, 100, 10),
            (
                MessageFacts("payment <n> declined", 9, "payment 17 declined", "oncelake trace alog/0/1234"),
                MessageFacts("disk full", 1, "disk full"),
            ),
        ),
    ),
)
MEASURE = MeasureFacts(
    *("gold.log_volume", "log_count", "count per 1 minute by level", "count", 60, (MINUTE, MINUTE + 60, MINUTE + 300)),
    {"INFO": (90, 80, 5), "ERROR": (10, 0, 0)},
    (3, 0, 1),
)

FACTS = Facts(
    at_ms=AT,
    lake="/lake",
    source="files in /logs",
    proof=ProofFacts(
        "made", AT, 7.5, 20_260, (Link("positions of bronze.access_log", "bronze.access_log", True, "2 batches"),)
    ),
    writing="",
    tables=(
        TableFacts("bronze.access_log", 20_260, 2, AT - 60_000, 3, 362_986),
        TableFacts("silver.access_log", 20_200, 2, AT - 50_000, 3, 294_264),
        TableFacts("silver.quarantine", 60, 1, AT - 49_000, 1, 6_000),
    ),
    stages=(
        StageFacts("bronze", "aligned", True, "at batch 1", 1, 20_260, 0, "files", AT - 60_000, "entry 1"),
        StageFacts("silver", "aligned", True, "at batch 1", 1, 20_200, 0, "rows", AT - 49_000, "version 2"),
    ),
    lines=LinesFacts("gold.log_volume", 60, (MINUTE, MINUTE + 60), {"INFO": (90, 80), "ERROR": (10, 0)}, "level"),
    late=LateFacts(20_200, {"up to a minute": 0, "more than a day": 200}, 3_463_200, 1),
    batches=(
        BatchFacts("bronze", 0, AT - 90_000, 4.3, 20_000, 4.3, None),
        BatchFacts("silver", 1, AT - 49_000, 1.8, 260, 2.7, 0, {"pattern": 20}, 260, ("quarantined",)),
    ),
    look=500,
    reasons=(ReasonFacts("pattern", "value", 20, ("app.log:broken",)),),
    versions={"oncelake": "0.1.0"},
    settings={"lake.root": "/lake"},
    period=PERIOD,
    measures=(MEASURE,),
    alerts=(AlertStatus("errors", "log_count of error_log > 5", "command", "open", 1),),
)


def hostile(text: str) -> Facts:
    """Return facts that contain a text wherever a log, a file name or a suite can put one."""
    batch = replace(FACTS.batches[1], refused={text: 3}, warned=(text,), lost=(text,))
    stage = replace(FACTS.stages[0], detail=text, may_start=False, position=text, warnings=(text,))
    link = Link(text, text, True, text, (text,))
    return replace(
        FACTS,
        lake=text,
        source=text,
        writing=text,
        proof=replace(FACTS.proof, links=(link,)),
        stages=(stage,),
        batches=(batch,),
        reasons=(ReasonFacts(text, text, 3, (text,)),),
        settings={"source": text},
        period=replace(
            PERIOD,
            changes=(replace(PERIOD.changes[0], name=text),),
            peaks=(
                replace(PERIOD.peaks[0], messages=(MessageFacts(text, 1, text), MessageFacts(text, 1, text, text))),
            ),
        ),
        measures=(replace(MEASURE, how=text, groups={text: MEASURE.others}),),
        not_drawn=(text,),
        begun=text,
        alerts=(AlertStatus(text, text, text, "open", failed=text, last_sent=text),),
        troubles={"quarantine": text},
    )
