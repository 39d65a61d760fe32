"""Write the figures of the benchmarks: one JSON file, and a page with plots that opens without a network."""

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

PLACE = Path("data/bench")
_LIBRARIES = ("pyspark", "delta-spark", "deltalake", "polars", "duckdb", "pyarrow")


def keep(name: str, figures: Mapping[str, Any]) -> Path:
    """Write a benchmark's figures and the machine that they are from; figures of other benchmarks stay."""
    PLACE.mkdir(parents=True, exist_ok=True)
    path = PLACE / "results.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known[name] = {"taken": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "machine": machine(), **figures}
    path.write_text(json.dumps(known, indent=1))
    return path


def machine() -> dict[str, Any]:
    """Describe the machine that the figures are from."""
    names = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": memory,
        "python": platform.python_version(),
        **{library: version(library) for library in _LIBRARIES},
    }


def page() -> Path:
    """Write the page from the figures on disk."""
    known = json.loads((PLACE / "results.json").read_text())
    parts = [_whole(known["whole"])] if "whole" in known else []
    parts += [_freshness(known["freshness"])] if "freshness" in known else []
    parts += [_growth(known["growth"])] if "growth" in known else []
    parts += [_kills(known["kills"])] if "kills" in known else []
    first = next(iter(known.values()))
    about = ", ".join(f"{key} {value}" for key, value in first["machine"].items())
    plots = [part.to_html(full_html=False, include_plotlyjs=at == 0) for at, part in enumerate(parts)]
    path = PLACE / "index.html"
    path.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8><title>oncelake: bench</title>"
        "<style>body{font:16px/1.5 system-ui;max-width:960px;margin:2rem auto;padding:0 1rem}</style>"
        f"<h1>oncelake beside other programs</h1><p>Taken {first['taken']} on {about}.</p>{''.join(plots)}</html>"
    )
    return path


def _whole(figures: Mapping[str, Any]) -> go.Figure:
    figure = go.Figure()
    for program in figures["runs"][0]["seconds"]:
        rows = [run for run in figures["runs"] if program in run["seconds"]]
        figure.add_bar(
            name=program,
            x=[f"{run['lines']:,} lines" for run in rows],
            y=[run["median"][program] for run in rows],
            textposition="outside",
            textangle=0,
            text=[f"{run['median'][program]:.1f} s, {run['times_oncelake'][program]:.2f}×" for run in rows],
            customdata=[str(run["seconds"][program]) for run in rows],
            hovertemplate="%{y:.1f} s, of %{customdata}",
        )
    figure.update_layout(
        title="Process start to exit: median, and times oncelake's",
        yaxis_title="seconds",
        yaxis_type="log",
        barmode="group",
    )
    return figure


def _freshness(figures: Mapping[str, Any]) -> go.Figure:
    figure = go.Figure()
    for share in ("p50", "p99"):
        names = [f"{run['program']}, {run['rate']:,} lines/s" for run in figures["runs"]]
        figure.add_bar(name=share, x=names, y=[run[share] for run in figures["runs"]])
    figure.update_layout(title="From a line's arrival to its count in gold", yaxis_title="seconds", barmode="group")
    return figure


def _growth(figures: Mapping[str, Any]) -> go.Figure:
    figure = go.Figure()
    for run in figures["runs"]:
        names = [f"after {int(commits):,} commits" for commits in run["median"]]
        text = ["", f"{run['ratio']:.2f}×"]
        figure.add_bar(name=run["table"], x=names, y=list(run["median"].values()), text=text, textposition="outside")
    figure.update_layout(title="A batch's write as a table's log grows", yaxis_title="seconds", barmode="group")
    return figure


def _kills(figures: Mapping[str, Any]) -> go.Figure:
    titles = {
        "program": "program",
        "lost": "lines lost",
        "doubled": "lines doubled",
        "gold_low": "gold too low by",
        "gold_high": "gold too high by",
        "killed": "runs killed",
        "failed": "runs failed",
    }
    columns = [[program[key] for program in figures["programs"]] for key in titles]
    figure = go.Figure(go.Table(header={"values": list(titles.values())}, cells={"values": columns}))
    figure.update_layout(title=f"After {figures['kills']} kills at random times, {figures['lines']:,} lines")
    return figure
