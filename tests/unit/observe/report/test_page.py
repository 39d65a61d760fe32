"""A page agrees with its facts, shows any text as text, and makes no request."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files

import plotly.graph_objects
import pytest

from oncelake.exactly_once.link import Link, Uncompared
from oncelake.lab import plots
from oncelake.observe import palette
from oncelake.observe.palette import REST
from oncelake.observe.report.contents import attention, balance, changes, verdict
from oncelake.observe.report.facts import Facts, LinesFacts, ProofFacts
from oncelake.observe.report.figures import bins, figures, label, measure_figure, opening
from oncelake.observe.report.page import page, parts
from tests.support.made_facts import AT, FACTS, MEASURE, MINUTE, PERIOD, hostile

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<b onclick=alert(1)>bold</b>",
    "--><img src=http://example.com/x onerror=alert(1)>",
    "{{ 7 * 6 }} {% raw %} {{ f }}",
    "\"><svg onload=alert(1)> ' `",
    "<!--<script>",
    "%{x} %{customdata} <a href='javascript:alert(1)'>a</a>",
)
EMPTY = Facts(at_ms=AT, lake="/lake", source="files in /logs", proof=ProofFacts("made"), writing="")


class Parsed(HTMLParser):
    """A page as a browser parses it: its tags, their attributes, its texts and the contents of its scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.css = ""
        self.scripts: list[str] = []
        self._open = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        del tag
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open == "script":
            self.scripts[-1] += data
        elif self._open == "style":
            self.css += data
        else:
            self.text += data


PLAIN = Parsed(page(hostile("plain")))


@pytest.mark.parametrize("text", HOSTILE)
def test_text_from_a_log_is_text_everywhere_on_the_page(text: str) -> None:
    parsed = Parsed(page(hostile(text)))
    assert [tag for tag, _ in parsed.tags] == [tag for tag, _ in PLAIN.tags]
    assert [sorted(attributes) for _, attributes in parsed.tags] == [sorted(attributes) for _, attributes in PLAIN.tags]
    assert parsed.text.count(text) == PLAIN.text.count("plain") >= 20
    assert parsed.scripts[1:] == PLAIN.scripts[1:]
    assert json.loads(parsed.scripts[0])["facts"]["begun"] == text


def test_control_characters_are_shown_by_name() -> None:
    html = page(hostile("\x1b[2J a\u202eb\u2028c\x00 d\u200b"))
    assert not set("\x1b\u202e\u2028\x00\u200b") & set(re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL))
    assert "\\x1b[2J a\\u202eb\\u2028c\\x00 d\\u200b" in Parsed(html).text


def test_no_text_ends_the_data_of_the_page_early() -> None:
    data = Parsed(page(hostile("</script><!-- & \u2028 \u2029"))).scripts[0]
    assert not set("<>&\u2028\u2029") & set(data)
    assert json.loads(data)["facts"]["lake"] == "</script><!-- & \u2028 \u2029"


def test_only_the_pages_own_scripts_may_run_and_make_no_request() -> None:
    for number, asks in ((None, "connect-src 'none'"), (1, "connect-src 'self'")):
        parsed = Parsed(page(FACTS, number))
        (policy,) = (str(attributes["content"]) for _, attributes in parsed.tags if attributes.get("http-equiv"))
        hashes = re.findall(r"'sha256-([^']+)'", policy)
        named = " ".join(f"'sha256-{digest}'" for digest in hashes)
        assert f"; script-src {named}; " in policy
        scripts = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in parsed.scripts]
        assert sorted(hashes) == sorted(scripts[1:])
        assert policy.startswith("default-src 'none'")
        assert asks in policy
        links = [str(attributes.get("href") or attributes.get("src") or "#") for _, attributes in parsed.tags]
        assert {link[0] for link in links if link != "data:,"} == {"#"}
        assert not [
            attribute for _, attributes in parsed.tags for attribute in attributes if attribute.startswith("on")
        ]


@pytest.mark.parametrize("facts", [FACTS, hostile(HOSTILE[6]), EMPTY], ids=["full", "hostile", "empty"])
def test_every_figure_is_valid_for_plotly(facts: Facts) -> None:
    for figure in figures(facts).values():
        plotly.graph_objects.Figure(figure)
        names = [trace["name"] + trace["hovertemplate"].split("<extra>")[0] for trace in figure["data"]]
        assert not [name for name in names if "<" in name]


def test_a_label_is_text_to_plotly() -> None:
    assert label("<b>&\x1b") == "&lt;b&gt;&amp;\\x1b"


BROKEN = Link("silver → gold", "gold", False, "2017-07-30 14:09: counts 3, is 2")
CUT = Link("bronze → silver", "silver", True, "", uncompared=Uncompared.of_lines(10, "whose commits are gone"))
UNPROVEN = replace(FACTS, proof=ProofFacts("not possible", AT, said="Kafka did not answer"))


@pytest.mark.parametrize(
    ("facts", "tone", "headline", "more"),
    [
        (FACTS, "good", "Every link holds: 20,260 lines, each exactly once", "1 link from the source"),
        (replace(FACTS, proof=ProofFacts("made", links=(BROKEN,))), "bad", "DOES NOT HOLD: silver → gold", "is 2"),
        (UNPROVEN, "open", "Not proven: the proof did not finish", "Kafka did not answer"),
        (replace(FACTS, proof=ProofFacts("left out")), "open", "Not proven here: the proof was skipped", "--no-proof"),
        (EMPTY, "open", "Nothing has been ingested yet", "There is no table"),
        (
            replace(FACTS, proof=replace(FACTS.proof, behind=True)),
            "good",
            "Every link holds: 20,260 lines",
            "later commits",
        ),
        (
            replace(FACTS, proof=replace(FACTS.proof, links=(CUT,))),
            "good",
            "Every link holds: 20,250 of 20,260 lines, each exactly once",
            "not compared: 10 lines whose commits are gone (bronze → silver)",
        ),
    ],
    ids=["holds", "broken", "impossible", "left out", "empty", "behind", "cut"],
)
def test_the_page_begins_with_the_result_of_the_proof(facts: Facts, tone: str, headline: str, more: str) -> None:
    assert verdict(facts).tone == tone
    parsed = Parsed(page(facts))
    assert headline in parsed.text
    assert more in parsed.text
    assert f"verdict {tone}" in [attributes.get("class") for _, attributes in parsed.tags]


def test_a_proof_that_ended_at_a_broken_link_is_broken() -> None:
    facts = replace(FACTS, proof=ProofFacts("not possible", AT, links=(BROKEN,), said="Kafka did not answer"))
    assert verdict(facts).tone == "bad"


def test_a_refused_stage_is_shown_at_the_top() -> None:
    lost = replace(FACTS.stages[1], state="checkpoint lost", may_start=False, detail="silver: checkpoint lost: …")
    facts = replace(FACTS, stages=(lost,), alerts=(), begun="a rebuild was begun")
    facts = replace(facts, troubles={"late lines": "a file is gone"})
    said = ["a rebuild was begun", "silver: checkpoint lost: …", "late lines could not be read: a file is gone"]
    assert list(attention(facts)) == said
    assert [text for text in said if text not in Parsed(page(facts)).text] == []


def test_bronze_equals_silver_quarantine_and_waiting_lines() -> None:
    assert balance(FACTS) == "20,260 lines in bronze = 20,200 in silver + 60 in quarantine"
    waiting = replace(FACTS, tables=FACTS.tables[:2])
    assert balance(waiting).endswith("= 20,200 in silver + 0 in quarantine + 60 that silver has not read yet")
    repeats = replace(FACTS.tables[0], name="silver.duplicates", rows=7)
    assert balance(replace(waiting, tables=(*FACTS.tables[:2], repeats))).endswith(
        "= 20,200 in silver + 0 in quarantine + 7 dropped as repeats + 53 that silver has not read yet"
    )
    doubled = replace(FACTS, tables=(replace(FACTS.tables[0], rows=20_000), *FACTS.tables[1:]))
    assert balance(doubled).endswith(", 260 more than bronze has")


def test_unknown_row_counts_are_not_shown_as_zero() -> None:
    facts = replace(FACTS, tables=(replace(FACTS.tables[0], rows=None, files=None, size=None), *FACTS.tables[1:]))
    html = page(facts)
    assert "Rows could not be counted in every table" in html
    assert "<dt>Lines ingested</dt><dd>?</dd>" in html


def test_a_page_can_be_made_of_empty_facts() -> None:
    text = Parsed(page(EMPTY)).text
    none = ("No lines to draw", "There is no table yet", "No line is in quarantine", "No batch is in the Delta logs")
    for said in none:
        assert said in text


def test_the_lines_behind_the_most_errors_are_one_command_away() -> None:
    at = "2017-07-30T14:09"
    command = f"oncelake lines gold.log_volume --at {at} --key level=ERROR"
    assert command in page(FACTS)
    assert FACTS.lines is not None
    fatal = replace(FACTS.lines, levels={"FATAL": (1, 1), "ERROR": (0, 2)}, seconds=30, starts=(MINUTE, MINUTE + 30))
    html = page(replace(FACTS, lines=fatal))
    commands = re.findall(r"oncelake lines gold.log_volume --at (\S+) --key level=(\w+)", html)
    assert commands == [(f"{at}:30", "ERROR"), (f"{at}:30", "FATAL"), (at, "FATAL")]
    assert "oncelake lines" not in page(replace(FACTS, lines=replace(FACTS.lines, key=""))), "a bin is several windows"


def test_the_page_tells_how_old_the_proof_is_and_only_of_one_that_holds() -> None:
    def proven(proof: ProofFacts) -> str:
        return page(replace(FACTS, proof=proof)).split("<dt>Proven</dt>")[1].split("</div>")[0]

    assert "all commits" in proven(replace(FACTS.proof, at_ms=AT - 90_000))
    assert 'class="ago"' in proven(replace(FACTS.proof, at_ms=AT - 90_000))
    assert "later commits are not" in proven(replace(FACTS.proof, behind=True))
    broken = replace(FACTS.proof, links=(replace(FACTS.proof.links[0], holds=False),))
    for proof, said in ((broken, "it does not hold"), (ProofFacts("left out"), "no proof"), (EMPTY.proof, "all")):
        assert said in proven(proof)
        assert (said == "all") == ('class="ago"' in proven(proof))


def test_an_open_alert_needs_attention() -> None:
    quiet = replace(FACTS.alerts[0], state="quiet", open=0)
    assert "alert errors is open: log_count of error_log > 5" in attention(FACTS)
    assert [*attention(replace(FACTS, alerts=(quiet,)))] == [*attention(replace(FACTS, alerts=()))]
    unsent = replace(quiet, failed="the receiver does not answer", unsent=1)
    assert "alert errors is not sent: the receiver does not answer" in attention(replace(FACTS, alerts=(unsent,)))


def test_lines_of_all_sources_are_counted_as_ingested() -> None:
    tables = (replace(FACTS.tables[0], name="bronze.web", rows=3), replace(FACTS.tables[0], name="bronze.app", rows=4))
    assert replace(FACTS, tables=tables).ingested == 7
    assert replace(FACTS, tables=(*tables, replace(tables[0], rows=None))).ingested is None


def test_the_updated_parts_equal_those_of_the_page() -> None:
    html, blocks = page(FACTS, 3), parts(FACTS)
    assert len(blocks) == 15
    for name, part in blocks.items():
        if name not in ("when", "title"):
            assert part.strip() in html
        assert f'id="part-{name}"' in html


def test_a_few_distant_lines_do_not_compress_the_plot() -> None:
    day = MINUTE - MINUTE % 86_400
    near = tuple(day + 60 * minute for minute in range(60))
    lines = LinesFacts("gold.log_volume", 60, (day - 40 * 86_400, *near), {"INFO": (1, *[10] * 60)})
    first, last = opening(lines)
    assert day * 1000 <= first < last <= (day + 3600) * 1000
    assert last - first > 0.9 * 3_600_000
    evenly = LinesFacts("gold.log_volume", 60, near, {"INFO": tuple([10] * 60)})
    assert opening(evenly) == [near[0] * 1000, (near[-1] + 60) * 1000]


def test_the_plot_starts_with_bins_of_visible_width() -> None:
    starts = tuple(MINUTE - MINUTE % 86_400 + 60 * minute for minute in range(1440))
    day = LinesFacts("gold.log_volume", 60, starts, {"INFO": tuple([10] * 1440)})
    meta = figures(replace(FACTS, lines=day))["lines"]["layout"]["meta"]
    assert meta["bins"] == [[60, "minute"], [300, "5 min"], [3600, "hour"], [86_400, "day"]]
    assert meta["start"] == 300


def test_the_share_of_errors_is_of_all_lines_of_a_bin() -> None:
    lines = LinesFacts("silver.access_log", 60, (0, 60), {"INFO": (6, 5), "ERROR": (3, 0), "FATAL": (1, 0)})
    figure = figures(replace(FACTS, lines=lines))["lines"]
    assert figure["data"][-1]["y"] == [40, 0]
    assert lines.totals == {"INFO": 11, "ERROR": 3, "FATAL": 1}


def test_bins_are_counted_by_their_length() -> None:
    assert [bins(*arguments) for arguments in ((1, 60), (2, 60), (1, 86_400), (1, 300), (1_200, 1800))] == [
        *("1 minute", "2 minutes", "1 day", "1 bin of 5 min", "1,200 bins of 30 min"),
    ]


def test_what_changed_is_told_with_its_difference() -> None:
    rows = {change.name: (change.value, change.before, change.change) for change in changes(PERIOD)}
    assert rows == {
        "Lines": ("180", "120", "+60 (+50.0\u00a0%)"),
        "Errors": ("10", "0", "+10"),
        "Share of errors": ("5.6 %", "0 %", "+5.56 points"),
        "In quarantine": ("5", "20", "−15 (−75.0\u00a0%)"),
        "Freshness, median": ("2.5 s", "–", "–"),
        "Freshness, longest": ("8.0 s", "8.0 s", "no change"),
    }
    text = Parsed(page(FACTS)).text
    assert [cell for row in rows.values() for cell in row if cell not in text] == []
    assert "From 2017-07-30 12:09:00 to 2017-07-30 16:09:00 UTC, against the 4 h before" in text
    assert "oncelake trace alog/0/1234" in text
    assert "10 errors in 100 lines" in text


def test_a_page_without_a_period_does_not_tell_what_happened() -> None:
    parsed = Parsed(page(replace(FACTS, period=None)))
    assert "What happened" not in parsed.text
    assert not [attributes for _, attributes in parsed.tags if attributes.get("href") == "#happened"]
    failed = replace(FACTS, period=None, troubles={"what happened": "a file is gone"})
    assert "It could not be read: a file is gone" in Parsed(page(failed)).text


def test_a_count_is_zero_where_no_window_is_and_other_measures_have_a_gap() -> None:
    figure = measure_figure(MEASURE)
    info, error, others = figure["data"]
    minutes = [0, 1, 2, 4, 5]
    assert (info["name"], error["name"], others["name"]) == ("INFO", "ERROR", "others")
    assert info["x"] == [(MINUTE + 60 * minute) * 1000 for minute in minutes]
    assert (info["y"], others["y"]) == ([90, 80, 0, 0, 5], [3, 0, 0, 0, 1])
    assert others["meta"]["colours"] == REST
    longest = measure_figure(replace(MEASURE, function="max", starts=(0, 120), groups={"": (3, 5)}, others=()))
    assert [(line["name"], line["x"], line["y"]) for line in longest["data"]] == [
        ("log_count", [0, 60_000, 120_000], [3, None, 5]),
    ]


def test_the_report_and_the_notebooks_have_one_palette() -> None:
    css = Parsed(page(FACTS)).css
    pairs = {**palette.PAGE, **{f"level-{level}": pair for level, pair in palette.LEVELS.items()}}
    for name, (light, dark) in pairs.items():
        assert f"--{name}: light-dark({light}, {dark});" in css
    assert {name: palette.LEVELS[name][0] for name in plots.LEVELS} == plots.LEVELS
    assert not re.findall(r"#[0-9a-f]{6}", (files("oncelake.observe.report") / "page.css").read_text(encoding="utf-8"))


def test_a_level_has_its_own_colour_also_among_groups() -> None:
    info, error, _ = measure_figure(MEASURE)["data"]
    assert (info["meta"]["colours"], error["meta"]["colours"]) == (palette.LEVELS["INFO"], palette.LEVELS["ERROR"])
