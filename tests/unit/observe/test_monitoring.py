"""The shipped rules for Prometheus and the dashboard for Grafana use metrics and labels that a run really serves."""

import json
import re
from collections.abc import Iterator

import promql_parser
import pytest
import yaml

from oncelake.engine.conf_file import shipped_conf
from oncelake.observe.metrics import METRICS
from tests.support.grafana import check_dashboard
from tests.support.places import ROOT

RULES = shipped_conf() / "monitoring" / "prometheus-rules.yaml"
DASHBOARD = shipped_conf() / "monitoring" / "grafana-dashboard.json"
PAGE = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
# labels that Prometheus adds, and those of expressions
GIVEN = {"instance", "job", "le"}


def exported() -> set[str]:
    """Return the names of the metrics on the page, which a test compares with the endpoint."""
    names = set(re.findall(r"^\| `(oncelake_\w+)` \|", PAGE, re.MULTILINE))
    assert len(names) == len(METRICS)
    return names


def expressions() -> Iterator[tuple[str, str]]:
    """Yield every expression of both files, with its name."""
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["definition"]


@pytest.mark.parametrize(("name", "expression"), [*expressions()])
def test_each_expression_uses_metrics_and_labels_that_exist(name: str, expression: str) -> None:
    used = re.findall(r"oncelake_\w+", expression)
    assert used or "up{" in expression, name
    assert {metric.removesuffix("_bucket") for metric in used} <= exported()
    assert expression.count("(") == expression.count(")")
    if not expression.startswith("label_values("):  # a function of Grafana, as is the variable below
        promql_parser.parse(expression.replace("$__rate_interval", "5m"))
    known = {attribute for metric in METRICS for attribute in metric.attributes} | GIVEN
    labels = set(re.findall(r"(\w+)\s*(?:=~|!=|=)\s*\"", expression))
    for grouped in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expression):
        labels |= {label.strip() for label in grouped.split(",")}
    assert labels <= known


def test_the_dashboard_shows_every_metric() -> None:
    shown = {name.removesuffix("_bucket") for _, text in expressions() for name in re.findall(r"oncelake_\w+", text)}
    assert shown == exported()


def test_an_alert_has_a_severity_and_says_what_to_do() -> None:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("warning", "critical")
            assert re.fullmatch(r"\d+m", rule["for"])
            assert {"summary", "description"} == rule["annotations"].keys()
            assert not set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) - {"instance", "stage", "alert"}


def test_grafana_reads_all_of_the_dashboard() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    for variable in dashboard["templating"]["list"]:
        variable.pop("definition", None)  # only what the editor shows
    check_dashboard(dashboard)
