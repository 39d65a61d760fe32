"""The report of a real lake agrees with the tables, works in a browser as a person uses it, and follows a run."""

import json
import os
import re
import shlex
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession

from oncelake.common.spark.jvm import jvm
from oncelake.observe.report.contents import verdict
from oncelake.observe.report.facts import Facts
from oncelake.observe.report.page import page
from oncelake.observe.report.period import Period
from tests.support.browser import Browser, chromium
from tests.support.house import House, events, until
from tests.support.lakes import MORE, keep_copy, put_back
from tests.support.made_report import facts_of

# the tests share a lake and a browser, which one worker starts
pytestmark = pytest.mark.xdist_group("spark")

SCRIPT = b"</script><script>document.title='hacked'</script>"
MINUTES = [f"2017-07-30 14:{minute:02}:08".encode() for minute in range(40)]
BATCHES = (
    [*(minute + b" INFO fine" for minute in MINUTES), *(minute + b" ERROR one" for minute in MINUTES[::2]), SCRIPT],
    [
        *(b"2017-07-30 14:38:59 ERROR late by a little", b"2017-06-20 00:00:01 FATAL late by 40 days"),
        *(b"2017-07-30 14:45:00 WARN not late", b"<b>bold</b> {{ 7 * 6 }} \x1b[2J \xe2\x80\xae", b""),
    ],
)
LINES_PLOT = "[data-figure=lines] .nsewdrag"
RANGE = "document.querySelector('[data-figure=lines]').layout.xaxis.range.map(at => +new Date(at))"
LINES = [line for batch in BATCHES for line in batch]


@dataclass
class Told:
    """A lake that two runs have filled, the facts of its report, and the page."""

    house: House
    copy: Path
    facts: Facts
    page: Path


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Told:
    house = House(tmp_path_factory.mktemp("told"))
    for number, lines in enumerate(BATCHES):
        house.write(f"{number} <i>.log", *lines)
        house.run(spark)
    facts = facts_of(house, spark)
    file = house.root / "page.html"
    file.write_text(page(facts))
    return Told(house, keep_copy(house), facts, file)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.mark.spark
def test_the_report_agrees_with_the_tables(told: Told) -> None:
    facts, answer = told.facts, told.house.must_be(LINES)
    assert verdict(facts).headline == f"Every link holds: {answer.lines:,} lines, each exactly once"
    assert [facts.rows(name) for name in ("bronze.access_log", "silver.access_log", "silver.quarantine")] == [
        *(answer.lines, answer.parsed, answer.broken),
    ]
    assert facts.lines is not None
    assert facts.lines.totals == {"INFO": 40, "WARN": 1, "ERROR": 21, "FATAL": 1}
    assert (facts.lines.table, facts.lines.seconds) == ("gold.log_volume", 60)
    levels = facts.lines.levels["ERROR"]
    errors = {start: count for start, count in zip(facts.lines.starts, levels, strict=True) if count}
    assert Counter(errors) == Counter({int(at.timestamp()): count for at, count in answer.errors.items()})
    assert facts.late is not None
    assert facts.late.by == {"up to a minute": 1, "up to an hour": 0, "up to a day": 0, "more than a day": 1}
    assert {reason.rule: reason.lines for reason in facts.reasons} == {"blank": 1, "pattern": 2}
    refused = {batch.batch_id: dict(batch.refused) for batch in facts.batches if batch.refused}
    assert refused == {0: {"pattern": 1}, 1: {"pattern": 1, "blank": 1}}
    assert {(stage.state, stage.backlog) for stage in facts.stages} == {("aligned", 0)}
    assert (facts.writing, facts.begun, dict(facts.troubles)) == ("", None, {})
    assert all(table.files and table.size for table in facts.tables)


@pytest.mark.spark
def test_the_report_names_what_it_means_and_no_value_of_python(told: Told) -> None:
    positions = {stage.stage: stage.position for stage in told.facts.stages}
    assert positions["silver"].endswith(" of bronze.access_log, read to its end")
    assert positions["gold.error_log"].endswith(" of silver.access_log, read to its end")
    assert not re.search(r"\b[A-Z]\w*\(\w+=|<\w+ object|\bNone\b", json.dumps(told.facts.to_dict()))


PERIOD = Period(datetime(2017, 7, 30, 14, 30, tzinfo=UTC), datetime(2017, 7, 30, 15, tzinfo=UTC))


@pytest.mark.spark
def test_a_period_tells_what_changed_and_leads_to_the_raw_lines(told: Told, spark: SparkSession) -> None:
    facts = facts_of(told.house, spark, proven=False, period=PERIOD)
    assert dict(facts.troubles) == {}
    assert facts.period is not None
    # minutes 30 to 39 with 10 INFO and 5 ERROR, one late ERROR, one WARN; before, minutes 0 to 29
    of = {change.name: (change.value, change.before) for change in facts.period.changes}
    assert {name: of[name] for name in ("Lines", "Errors")} == {"Lines": (17, 45), "Errors": (6, 15)}
    assert of["Share of errors"] == (35.294, 33.333)
    assert of["In quarantine"] == (0, 0), "the lines were ingested today"
    assert facts.lines is not None
    assert sum(facts.lines.totals.values()) == 17
    (peak,) = facts.period.peaks
    assert (peak.seconds, peak.errors, peak.read) == (60, 2, 2)
    assert {group.template: group.lines for group in peak.messages} == {"one": 1, "late by a little": 1}
    for message in peak.messages:
        assert message.trace is not None
        way = told.house.lakehouse(spark).trace(shlex.split(message.trace)[2])
        assert way.holds
        assert way.line is not None
        assert way.line.encode() in LINES
        assert way.line.endswith(f"ERROR {message.example}")


@pytest.mark.spark
def test_a_period_of_ingestion_counts_quarantine_and_freshness(told: Told, spark: SparkSession) -> None:
    now = datetime.now(UTC)
    facts = facts_of(told.house, spark, proven=False, period=Period(now - timedelta(hours=3), now))
    assert facts.period is not None
    of = {change.name: (change.value, change.before, change.by) for change in facts.period.changes}
    assert of["In quarantine"] == (3, 0, "ingest time")
    assert of["In quarantine: pattern"] == (2, 0, "ingest time")
    assert of["In quarantine: blank"] == (1, 0, "ingest time")
    value, before, by = of["Freshness, longest"]
    assert value is not None
    assert value > 0
    assert (before, by) == (None, "commit time")
    assert (facts.lines, facts.period.peaks, facts.measures) == (None, (), ())
    assert of["Lines"] == (0, 0, "log time")


@pytest.mark.spark
def test_the_users_own_gold_tables_are_drawn_as_declared(told: Told) -> None:
    measures = {(measure.table, measure.measure): measure for measure in told.facts.measures}
    volume = measures["gold.log_volume", "log_count"]
    assert volume.how == "count per 1 minute by level"
    assert {name: sum(filter(None, values)) for name, values in volume.groups.items()} == {
        "INFO": 40,
        "ERROR": 21,
        "FATAL": 1,
        "WARN": 1,
    }
    assert (volume.seconds, volume.others) == (60, ())
    assert set(measures) == {("gold.log_volume", "log_count"), ("gold.error_log", "log_count")}


@pytest.mark.spark
def test_the_page_works_without_a_network(told: Told, browser: Browser) -> None:
    browser.open(told.page.as_uri())
    browser.until("document.querySelectorAll('.plot .main-svg').length >= 20")
    assert browser.ask("document.title").startswith("oncelake: Every link holds")
    assert "{{ 7 * 6 }} \\x1b[2J \\u202e" in browser.ask("document.body.innerText")
    browser.point(LINES_PLOT, 0.5)
    browser.until("/errors|INFO/.test(document.querySelector('[data-figure=lines] .hoverlayer').textContent)")
    before = browser.ask(RANGE)
    browser.point(LINES_PLOT, 0.3, drag=200)
    browser.until(f"{RANGE}[0] > {before[0]} && {RANGE}[1] < {before[1]}")
    browser.click("[data-choice=bins][data-value='3600']")
    assert browser.ask("document.querySelector('[data-figure=lines]').data[0].y.length") == 2
    browser.click("[data-choice=lines-scale][data-value=log]")
    assert browser.ask("document.querySelector('[data-figure=lines]').layout.yaxis.type") == "log"
    browser.click("[data-stage=bronze]")
    assert browser.ask("document.querySelector('[data-figure=seconds]').data[0].visible") is False
    background = browser.ask("getComputedStyle(document.body).backgroundColor")
    browser.click("#theme")
    assert browser.ask("getComputedStyle(document.body).backgroundColor") != background
    assert browser.ask("performance.getEntriesByType('resource').map(each => each.name)") == []
    assert browser.complaints() == []


@pytest.mark.spark
@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1280, False), (1280, True)])
def test_the_page_fits_a_phone_and_a_desk(
    told: Told, browser: Browser, tmp_path: Path, width: int, *, dark: bool
) -> None:
    browser.open(told.page.as_uri(), width=width, dark=dark)
    browser.until("document.querySelectorAll('.plot .main-svg').length >= 20")
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert (
        browser.ask("getComputedStyle(document.body).backgroundColor")
        == f"rgb({'20, 23, 27' if dark else '247, 247, 245'})"
    )
    sizes = browser.ask(
        "[...document.querySelectorAll('.plot')].map(each => each.querySelector('.main-svg').clientWidth)"
    )
    assert min(sizes) > 0.3 * width
    shown = browser.picture(tmp_path / "page.png").stat().st_size
    browser.ask("void (document.body.style.visibility = 'hidden')")
    assert shown > 10 * browser.picture(tmp_path / "blank.png").stat().st_size
    assert browser.complaints() == []


@pytest.mark.spark
def test_a_refused_stage_and_a_failed_proof_are_shown(told: Told, spark: SparkSession) -> None:
    house = put_back(told.house, told.copy, spark)
    shutil.rmtree(house.checkpoint("silver"))
    lost = facts_of(house, spark, proven=False)
    assert {stage.stage: stage.state for stage in lost.stages}["silver"] == "checkpoint lost"
    assert "Fix: oncelake recover silver" in page(lost)
    assert verdict(lost).tone == "open"
    for file in house.table("silver/access_log").glob("*.parquet"):
        file.unlink()
    jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
    broken = facts_of(house, spark)
    assert verdict(broken).headline == "DOES NOT HOLD: data files of silver.access_log"
    assert "late lines" in broken.troubles
    assert broken.rows("bronze.access_log") == len(LINES)
    assert "DOES NOT HOLD: data files of silver.access_log" in page(broken)


@pytest.mark.spark
def test_a_part_that_cannot_be_read_is_reported_and_the_rest_is_shown(told: Told, spark: SparkSession) -> None:
    house = put_back(told.house, told.copy, spark)
    quick = "source.kafka={default.api.timeout.ms: '1500', request.timeout.ms: '1000'}"
    kafka = ["source.kind=kafka", "source.bootstrap_servers=127.0.0.1:1", quick]
    house.sets = [*kafka, "serving.url=mysql+pymysql://user:hush@127.0.0.1:1/alog"]
    facts = facts_of(house, spark)
    states = {stage.stage: stage.state for stage in facts.stages}
    assert (states["bronze"], states["silver"]) == ("source away", "aligned")
    assert states["serving.error_log"] == "target away"
    assert verdict(facts).tone == "open"
    assert "Kafka at 127.0.0.1:1 did not answer" in facts.proof.said
    assert facts.lines is not None
    assert "hush" not in page(facts) + json.dumps(facts.to_dict())


@pytest.mark.spark
def test_a_lake_without_tables_has_a_page(house: House, spark: SparkSession) -> None:
    facts = facts_of(house, spark)
    assert "Nothing has been ingested yet" in page(facts)
    assert (facts.tables, facts.lines, facts.late, dict(facts.troubles)) == ((), None, None, {})


@contextmanager
def watched(house: House, *command: str) -> Iterator[str]:
    """Serve the report of a lake from a separate process, yield its address, and end it as Ctrl-C does."""
    process = house.start(*command, "--port", "0", "--json")
    try:
        assert process.stdout is not None
        yield str(json.loads(process.stdout.readline())["url"])
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=60)
        assert (process.returncode, "Traceback" in said) == (0, False), said
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.mark.spark
def test_the_page_opens_in_the_browser(told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, program = tmp_path / "opened", tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened}\n')
    program.chmod(0o700)
    monkeypatch.setenv("BROWSER", str(program))
    with watched(told.house, "open", "--no-proof") as url:
        until(opened.exists)
        assert opened.read_text().strip() == url
        with urlopen(url) as page:
            assert b"oncelake" in page.read()


@pytest.mark.long  # the board of a run is followed in test_watch.py
@pytest.mark.spark
def test_the_served_page_follows_a_run_without_delaying_it(
    told: Told, browser: Browser, spark: SparkSession, tmp_path: Path
) -> None:
    house, lines = put_back(told.house, told.copy, spark), [*LINES, *MORE]
    with watched(house, "report", "--watch") as url:
        browser.open(url)
        browser.until(f"document.title.startsWith('oncelake: Every link holds: {len(LINES)} lines')", 120)
        browser.until("document.querySelector('[data-figure=lines] .main-svg')")
        opened = browser.ask(RANGE)
        browser.point(LINES_PLOT, 0.3, drag=200)
        browser.until(f"{RANGE}[0] > {opened[0]}")
        zoomed = browser.ask(RANGE)
        browser.ask("void (scrollTo({top: 700, behavior: 'instant'}), window.same = true)")
        house.write("more.log", *MORE)
        house.run(spark)
        browser.until(f"document.title.startsWith('oncelake: Every link holds: {len(lines)} lines')", 120)
        assert browser.ask("document.querySelector('.figures dd').textContent") == str(len(lines))
        assert browser.ask(RANGE) == zoomed
        assert browser.ask("[window.same, scrollY]") == [True, 700]
        assert browser.complaints() == []
    for file in house.table("gold/error_log").glob("*.parquet"):
        file.unlink()
    out, broken = tmp_path / "out.html", "DOES NOT HOLD: data files of gold.error_log"
    (said,) = events(house.tell(spark, "report", "-o", str(out), "--json", expect=1))
    assert (said["proof"]["made"], said["page"]) == ("made", str(out))
    assert broken in out.read_text()
