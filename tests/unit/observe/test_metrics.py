"""A run's metrics: what is counted once, which attributes are possible, who can read them and for how long."""

import re
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError
from oncelake.common.lake import BRONZE, QUARANTINE, SILVER, Table
from oncelake.engine.chain import Chain, StageState, chain_of
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.configuration import configured
from oncelake.engine.settings import MetricsSettings
from oncelake.exactly_once.batch import CommittedBatch, ForeignWriter, Notice
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.exactly_once.source import Backlog
from oncelake.exactly_once.write import Written
from oncelake.lab.demo.server import free_port
from oncelake.observe import measure as measuring
from oncelake.observe.endpoint import check_port, endpoint
from oncelake.observe.listener import Listener, QueryEvent
from oncelake.observe.measure import RunMeter, ignore, measured
from oncelake.observe.metrics import BATCHES, MASKED, METRICS, OTHER, QUARANTINED, ROWS, RULES, Instruments, instruments
from tests.support.memory import MemoryFiles, callback, checkpoint, metadata
from tests.support.places import ROOT

PAGE = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
STAGES = ("bronze", "silver")
NONE: Any = None
PROGRESS = {"inputRowsPerSecond": 12.5, "durationMs": {"addBatch": 1500, "walCommit": 40, "aNewPhase": 7}}


@pytest.fixture
def reader() -> InMemoryMetricReader:
    return InMemoryMetricReader()


@pytest.fixture
def provider(reader: InMemoryMetricReader) -> Iterator[MeterProvider]:
    provider = MeterProvider([reader], shutdown_on_exit=False)
    yield provider
    provider.shutdown()


def unseen(_: str) -> StageState:
    raise OSError("Kafka is away")


def points(reader: InMemoryMetricReader) -> dict[str, dict[tuple[str, ...], Any]]:
    """Return every value, by metric name and attribute values."""
    data = reader.get_metrics_data()
    assert data is not None
    metrics = [
        metric for resource in data.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics
    ]
    return {
        metric.name: {
            tuple(map(str, (point.attributes or {}).values())): getattr(point, "value", None)  # a histogram has none
            for point in metric.data.data_points
        }
        for metric in metrics
    }


def report(batch_id: int = 0, *, replayed: bool = False) -> CommittedBatch:
    rows = {str(SILVER): 0 if replayed else 7, str(QUARANTINE): 0 if replayed else 3}
    refused, masked = ({}, {}) if replayed else ({"blank": 1, "time": 2}, {"email": 4})
    return CommittedBatch("silver", batch_id, rows, 0.5, replayed, (), refused, masked=masked)


def measure(*providers: MeterProvider) -> RunMeter:
    return RunMeter([instruments(meter_provider) for meter_provider in providers], unseen)


def told(meter: RunMeter, stage: str = "silver") -> None:
    """Start a stage's query, process a batch and report it."""
    meter.count(QueryEvent("started", f"run of {stage}", name=stage))
    meter.count(report())
    meter.count(QueryEvent("progress", f"run of {stage}", progress=PROGRESS))


def test_a_replayed_batch_counts_no_row_twice(provider: MeterProvider, reader: InMemoryMetricReader) -> None:
    run = measure(provider)
    with run.going_on(STAGES):
        for batch in (report(0), report(0, replayed=True), report(1)):
            run.count(batch)
        values = points(reader)
    assert values[ROWS.name] == {("silver", "silver.access_log"): 14, ("silver", "silver.quarantine"): 6}
    assert values[BATCHES.name] == {("silver", "written"): 2, ("silver", "replayed"): 1}
    assert values[QUARANTINED.name] == {("blank",): 2, ("time",): 4}
    assert values[MASKED.name] == {("silver", "email"): 8}


def test_matches_of_mask_rules_are_counted_by_stage_and_rule(
    provider: MeterProvider, reader: InMemoryMetricReader
) -> None:
    for masked in ({"email": 2, "card": 1}, {"email": 3}, {}):
        instruments(provider).batch(CommittedBatch("bronze", 0, {}, 1.0, replayed=False, masked=masked))
    assert points(reader)[MASKED.name] == {("bronze", "email"): 5, ("bronze", "card"): 1}


def test_a_half_replayed_batch_reports_only_what_it_wrote() -> None:
    def written(table: Table, *, replayed: bool) -> Written:
        wrote = metadata(0, str(table), quality={"lines": 5, "rules": {"blank": 2}, "warned": []})
        return Written(ChainCommit(1, "WRITE", {}, {"numOutputRows": "2"}, 0, wrote), replayed)

    def reported(wrote: dict[Table, Written]) -> CommittedBatch:
        files, reports = MemoryFiles(), list[CommittedBatch]()
        checkpoint(files, "ckpt", planned=0)
        tables = {SILVER: ForeignWriter(), QUARANTINE: ForeignWriter()}
        write = callback(
            lambda _, batch: batch.written.update(wrote), files=files, tables=tables, report=reports.append
        )
        write(NONE, 0)
        return reports[0]

    wrote = {SILVER: written(SILVER, replayed=True), QUARANTINE: written(QUARANTINE, replayed=False)}
    half = reported(wrote)
    assert (half.rows, half.refused, half.replayed) == ({str(SILVER): 0, str(QUARANTINE): 2}, {"blank": 2}, False)
    whole = reported({**wrote, QUARANTINE: written(QUARANTINE, replayed=True)})
    assert (whole.rows, whole.refused, whole.replayed) == ({str(SILVER): 0, str(QUARANTINE): 0}, {}, True)


def test_the_last_reports_are_counted_before_the_run_ends(
    provider: MeterProvider, reader: InMemoryMetricReader
) -> None:
    run = measure(provider)
    with run.going_on(STAGES):
        for number in range(1000):
            run.put(report(number))
        run.put(lambda: QueryEvent("progress", "of nobody", progress=PROGRESS))
    assert points(reader)[BATCHES.name] == {("silver", "written"): 1000}


def test_a_stage_is_up_from_the_start_of_its_query_to_its_end(
    provider: MeterProvider, reader: InMemoryMetricReader
) -> None:
    run = measure(provider)
    with run.going_on(STAGES):
        told(run)
        values = points(reader)
        assert values["oncelake.stage.up"] == {("bronze",): 0, ("silver",): 1}
        assert values["oncelake.input.rate"] == {("bronze",): 0, ("silver",): 12.5}
        run.count(QueryEvent("idle", "run of silver"))
        values = points(reader)
        assert (values["oncelake.stage.up"]["silver",], values["oncelake.input.rate"]["silver",]) == (1, 0)
        run.count(QueryEvent("ended", "run of silver"))
        assert points(reader)["oncelake.stage.up"]["silver",] == 0
    assert "oncelake.stage.up" not in points(reader)


def test_spark_s_phases_are_counted_in_seconds_and_new_ones_are_other(
    provider: MeterProvider, reader: InMemoryMetricReader
) -> None:
    run = measure(provider)
    with run.going_on(STAGES):
        told(run)
        told(run)
        values = points(reader)["oncelake.phase.time"]
    assert values == {("silver", "addBatch"): 3.0, ("silver", "walCommit"): 0.08, ("silver", OTHER): 0.014}


def test_a_wait_counts_once_however_often_it_is_reported(provider: MeterProvider, reader: InMemoryMetricReader) -> None:
    run = measure(provider)
    with run.going_on(STAGES):
        for stage, said in (("silver", "mysql: gone; 0 s so far"), ("silver", "still"), ("nobody", "x")):
            run.count(Notice(stage, said))
        run.count(Notice("silver", "a group is not told", "warning"))
        run.count(report())
        run.count(Notice("silver", "gone again"))
        assert points(reader)["oncelake.waits"] == {("silver",): 2}


def test_freshness_grows_without_new_batches_and_is_negative_in_the_future(
    provider: MeterProvider, reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = measure(provider)
    with run.going_on(STAGES):
        run.stages["silver"].committed = 1000.0
        monkeypatch.setattr("oncelake.observe.metrics.time.time", lambda: 1060.0)
        run.see()  # Kafka is away: the last values stay
        assert points(reader)["oncelake.freshness"] == {("silver",): 60.0}
        run.stages["silver"].committed = 1180.0
        assert points(reader)["oncelake.freshness"] == {("silver",): -120.0}


def test_the_backlog_has_its_unit_and_is_omitted_if_unknown(
    provider: MeterProvider, reader: InMemoryMetricReader
) -> None:
    run = measure(provider)
    with run.going_on(STAGES):
        run.stages["bronze"].backlog = Backlog(4, "records")
        run.stages["silver"].backlog = Backlog(None, "rows")
        assert points(reader)["oncelake.backlog"] == {("bronze", "records"): 4}


def test_the_number_of_series_is_bounded(provider: MeterProvider, reader: InMemoryMetricReader) -> None:
    run = measure(provider)
    with run.going_on(STAGES):
        for number in range(3 * RULES):
            refused = {f"rule {number}": 1}
            run.count(CommittedBatch("silver", number, {str(SILVER): 1}, 0.1, replayed=False, refused=refused))
            phases = {f"phase {number}": 1}
            run.count(QueryEvent("started", str(number), name="silver"))
            run.count(QueryEvent("progress", str(number), progress={"durationMs": phases}))
            run.count(QueryEvent("started", f"{number} of a stranger", name=f"query {number}"))
        values = points(reader)
    assert len(values[QUARANTINED.name]) == RULES + 1
    assert values[QUARANTINED.name][OTHER,] == 2 * RULES
    assert len(values["oncelake.phase.time"]) == 1
    assert values["oncelake.stage.up"].keys() == {("bronze",), ("silver",)}


def test_a_second_run_in_one_process_is_read_like_the_first(
    provider: MeterProvider, reader: InMemoryMetricReader
) -> None:
    for times in (1, 2):
        run = measure(provider)
        with run.going_on(STAGES):
            told(run)
            values = points(reader)
        assert values["oncelake.stage.up"] == {("bronze",): 0, ("silver",): 1}
        assert values[BATCHES.name] == {("silver", "written"): times}


def test_java_is_not_called_while_a_query_waits() -> None:
    class Event:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"{name} was asked for")

    put: list[Any] = []
    listener = Listener(put.append)
    for call in (listener.onQueryStarted, listener.onQueryProgress, listener.onQueryIdle, listener.onQueryTerminated):
        call(Event())
    assert len(put) == 4


def lake(tmp_path: Path, *sets: str) -> Chain:
    (tmp_path / "logs").mkdir()
    places = [f"source.path={tmp_path}/logs", f"lake.root={tmp_path}/lake"]
    return chain_of(*configured(shipped_conf() / "local.yaml", [*places, *sets]))


def test_without_a_reader_nothing_is_registered(tmp_path: Path) -> None:
    before = threading.active_count()
    with measured(lake(tmp_path), cast(SparkSession, None), ignore) as tap:
        assert tap is ignore
        assert threading.active_count() == before


def test_a_meter_provider_of_the_program_around_reads_the_run(
    tmp_path: Path, provider: MeterProvider, reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "get_meter_provider", lambda: provider)
    monkeypatch.setattr(measuring, "listening", lambda *_: nullcontext())
    with measured(lake(tmp_path), cast(SparkSession, None), ignore) as tap:
        tap(report())
    assert points(reader)[ROWS.name]["silver", "silver.access_log"] == 7


def fetched(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def test_prometheus_is_served_until_the_run_ends_and_again_by_the_next() -> None:
    settings = MetricsSettings(port=free_port())
    assert settings.port is not None
    for _ in range(2):
        with endpoint(settings) as provider:
            run = measure(provider)
            with run.going_on(STAGES):
                told(run)
                text = fetched(settings.port)
        assert 'oncelake_rows_total{stage="silver",table="silver.access_log"} 7.0' in text
        assert re.search(r'target_info\{.*service_name="oncelake",service_version="\d+\.\d+\.\d+"', text)
        with pytest.raises(OSError, match="refused"):
            fetched(settings.port)


def test_a_taken_port_is_a_one_line_error() -> None:
    settings = MetricsSettings(port=free_port())
    with endpoint(settings):
        with pytest.raises(ConfigError) as error:
            check_port(settings)
        with pytest.raises(ConfigError) as again, endpoint(settings):
            pass
    assert str(again.value) == str(error.value)
    assert str(error.value) == (
        f"metrics.port {settings.port}: cannot listen at 127.0.0.1: Address already in use; "
        "set another metrics.port or metrics.host, or stop the process that listens there"
    )
    assert error.value.exit_code == 2
    check_port(settings)
    check_port(MetricsSettings())
    with pytest.raises(ConfigError, match=r"metrics.port \d+: cannot listen at no\.such\.host\.invalid: "):
        check_port(MetricsSettings(port=settings.port, host="no.such.host.invalid"))


def test_the_page_has_every_instrument_as_prometheus_shows_it() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `([\w.]+)` \| (\w+) \| (?:`(\S+)`)? ?\| (.*?) \|", PAGE, re.MULTILINE)
    written = [(name, kind, unit, tuple(re.findall(r"`(\w+)`", by))) for _, name, kind, unit, by in rows]
    assert written == [(metric.name, metric.kind, metric.unit, metric.attributes) for metric in METRICS]
    settings = MetricsSettings(port=free_port())
    assert settings.port is not None
    with endpoint(settings) as provider:
        run = measure(provider)
        with run.going_on(STAGES):
            told(run)
            run.count(Notice("silver", "waits"))
            run.stages["silver"].backlog = Backlog(1, "rows")
            for instrument in run.instruments:
                instrument.alerts["spike"] = (1, 2)
            text = fetched(settings.port)
    shown = set(re.findall(r"^# TYPE (oncelake_\w+)", text, re.MULTILINE))
    assert {name for name, *_ in rows} == shown
    used = set(re.findall(r"oncelake_\w+", PAGE.partition("## What to alert on")[2]))
    assert {name.removesuffix("_bucket") for name in used} <= shown


def test_an_attribute_has_a_fixed_set_of_values() -> None:
    allowed = {"stage", "table", "phase", "outcome", "rule", "unit", "alert"}
    assert {attribute for metric in METRICS for attribute in metric.attributes} == allowed


def test_instruments_are_distinguished_by_their_declaration(
    provider: MeterProvider, reader: InMemoryMetricReader
) -> None:
    run = measure(provider)
    with run.going_on(STAGES):
        told(run)
        run.count(Notice("silver", "waits"))
        run.stages["silver"].backlog = Backlog(1, "rows")
        for instrument in run.instruments:
            instrument.alerts["spike"] = (1, 2)
        data = reader.get_metrics_data()
    assert data is not None
    (scope,) = data.resource_metrics[0].scope_metrics
    declared = {metric.name: (set(metric.attributes), metric.unit) for metric in METRICS}
    assert declared == {
        metric.name: ({key for point in metric.data.data_points for key in point.attributes or {}}, metric.unit)
        for metric in scope.metrics
    }
    assert isinstance(instruments(provider), Instruments)
    assert str(BRONZE) not in str(data)
