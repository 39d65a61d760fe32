"""This is where facts become one page that needs nothing but itself: no network, no file beside it.

What comes from a log is text: Jinja escapes every value, JSON in the page cannot end its element, and the page's own
policy lets no script run but the two whose hash it names, so that a text that got through could still do nothing.
"""

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from statistics import median
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from pipelines.report import words
from pipelines.report.facts import BatchFacts, Facts
from pipelines.report.figures import LEVELS, figures, stage_colours
from pipelines.report.verdict import attention, balance, verdict

# So many are listed of what can be many.
LISTED = 10


@dataclass(frozen=True)
class Sum:
    """The batches of one stage, summed up."""

    stage: str
    count: int
    rows: int
    seconds: float
    longest: float
    rate: float
    freshness: float | None


def page(facts: Facts, number: int | None = None) -> str:
    """Make the page.

    Args:
        facts: what it tells.
        number: for a page that is served and looks for news, which look at the lake it shows.
    """
    script, plotly = (_script(each) for each in (_text("page.js"), get_plotlyjs()))
    told = _told(facts) | {"live": number is not None, "number": number}
    policy = policy_for((script, plotly), live=number is not None)
    data = as_json({"figures": figures(facts), "facts": facts.to_dict()})
    text: str = _template().render(told, policy=policy, css=_css(), data=data, plotly=plotly, script=script)
    return text


def parts(facts: Facts) -> dict[str, str]:
    """Give the parts of the page that change, each as HTML, by the names of their places."""
    template = _template()
    context = template.new_context(_told(facts) | {"live": True, "number": 0})
    return {name: "".join(block(context)) for name, block in template.blocks.items()}


def policy_for(scripts: tuple[str, ...], *, live: bool) -> str:
    """Give the policy of a page: these scripts alone, and no request, but to the server that it came from."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    asks = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        f"connect-src {asks}; base-uri 'none'; form-action 'none'"
    )


def as_json(value: object) -> Markup:
    """Write JSON that can stand in a script element: nothing in it is a tag, a comment or a line's end to a browser."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _told(facts: Facts) -> dict[str, Any]:
    """Give all that the template names."""
    lines = facts.lines
    bins = zip(lines.starts, lines.errors, lines.all, strict=True) if lines else ()
    return {
        "f": facts,
        "v": verdict(facts),
        "notices": list(attention(facts)),
        "balance": balance(facts),
        "layers": list(_layers(facts)),
        "peaks": sorted((each for each in bins if each[1]), key=lambda each: (-each[1], each[0]))[: LISTED // 2],
        "stages": list(stage_colours(facts)),
        "sums": list(_sums(facts)),
        "warned": [batch for batch in reversed(facts.batches) if batch.warned][:LISTED],
    }


def _layers(facts: Facts) -> Iterator[tuple[str, list[tuple[str, int, str]]]]:
    """Give the tables by layer, each with what is said of it; served tables by their stages."""
    for layer in ("bronze", "silver", "gold"):
        found = [
            (each.name.split(".")[1], each.rows or 0, f"version {each.version:,}, {words.bytes_words(each.size or 0)}")
            for each in facts.tables
            if each.name.startswith(f"{layer}.")
        ]
        if found:
            yield layer, found
    served = [stage for stage in facts.stages if stage.stage.startswith("serving.")]
    if served:
        yield "serving", [(each.stage.split(".")[1], each.rows, f"batch {each.batch_id}") for each in served]


def _sums(facts: Facts) -> Iterator[Sum]:
    by_stage: dict[str, list[BatchFacts]] = {}
    for batch in facts.batches:
        by_stage.setdefault(batch.stage, []).append(batch)
    for stage, batches in by_stage.items():
        seconds = [batch.seconds for batch in batches]
        fresh = [batch.freshness for batch in batches if batch.freshness is not None]
        yield Sum(
            stage,
            count=len(batches),
            rows=sum(batch.rows for batch in batches),
            seconds=median(seconds),
            longest=max(seconds),
            rate=median(batch.rate for batch in batches),
            freshness=median(fresh) if fresh else None,
        )


@cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("pipelines.report", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {
        "num": "{:,}".format,
        "utc": words.utc,
        "iso": lambda ms: datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds"),
        "minute": words.minute,
        "span": words.span,
        "ago": words.ago,
        "bin": words.each_bin,
        "plural_bins": words.bins,
        "bytes": words.bytes_words,
        "share": words.share,
        "text": words.text,
    }
    environment.globals["m"] = environment.get_template("macros.html.j2").module
    return environment.get_template("page.html.j2")


@cache
def _css() -> Markup:
    levels = [f"  --level-{level}: light-dark({light}, {dark});" for level, (light, dark) in LEVELS.items()]
    tones = [f".level-{level} {{ --tone: var(--level-{level}) }}" for level in LEVELS]
    return Markup(_text("page.css").replace("{{ levels }}", "\n".join(levels)) + "\n".join(tones))


def _text(name: str) -> str:
    return files("pipelines.report").joinpath(name).read_text(encoding="utf-8")


def _script(text: str) -> Markup:
    assert "</script" not in text.lower(), "a script that ends its own element"
    return Markup(text)
