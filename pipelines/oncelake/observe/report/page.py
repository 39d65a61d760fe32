"""Rendering of the facts as one self-contained HTML page: it needs no network and no other file.

Log text in the page cannot run as code. Jinja escapes every value, and JSON in the page cannot close its own element.
The page's Content-Security-Policy allows only its two scripts, by their hashes, so even unescaped text cannot run.
"""

import base64
import hashlib
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from oncelake.common.wording import ago, count_of, duration, number, printable, share, size
from oncelake.observe.palette import LEVELS, PAGE, STAGES
from oncelake.observe.report.contents import contents
from oncelake.observe.report.facts import Facts
from oncelake.observe.report.figures import bins, each_bin, figures, measure_id
from oncelake.observe.status import backlog_words


def page(facts: Facts, number: int | None = None) -> str:
    """Render the page.

    Args:
        facts: the content of the page.
        number: for a served page, which asks for updates: the number of the look at the lake that it shows.
    """
    script, plotly = (_script(source) for source in (_text("page.js"), get_plotlyjs()))
    values = contents(facts) | {"live": number is not None, "number": number}
    policy = _policy_for((script, plotly), live=number is not None)
    script_data = {"figures": figures(facts), "facts": facts.to_dict()}
    data = htmlsafe_json_dumps(script_data, separators=(",", ":"), allow_nan=False)
    text: str = _template().render(values, policy=policy, css=_css(), data=data, plotly=plotly, script=script)
    return text


def parts(facts: Facts) -> dict[str, str]:
    """Return the parts of the page that change, as HTML by block name."""
    template = _template()
    context = template.new_context(contents(facts) | {"live": True, "number": 0})
    return {name: "".join(block(context)) for name, block in template.blocks.items()}


def _policy_for(scripts: tuple[str, ...], *, live: bool) -> str:
    """Return the Content-Security-Policy of a page.

    It allows only these scripts. It allows no request, except from a live page to its own server.
    """
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    asks = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        f"connect-src {asks}; base-uri 'none'; form-action 'none'"
    )


@cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("oncelake.observe.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {
        "num": number,
        "count": count_of,
        "utc": lambda ms: f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}",
        "iso": lambda ms: datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds"),
        "minute": lambda seconds: f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}",
        "duration": duration,
        "ago": ago,
        "bin": each_bin,
        "bins": bins,
        "waits": backlog_words,
        "measure": measure_id,
        "bytes": size,
        "share": share,
        "text": lambda value: printable(value, 2_000),  # escapes control characters
    }
    environment.globals["m"] = environment.get_template("macros.html.j2").module
    return environment.get_template("page.html.j2")


@cache
def _css() -> Markup:
    layers = {layer: colours[0] for layer, colours in STAGES.items()}
    levels = {f"level-{level}": colours for level, colours in LEVELS.items()}
    named = {**PAGE, **layers, **levels}.items()
    colours = [f"  --{name}: light-dark({light}, {dark});" for name, (light, dark) in named]
    tones = [f".level-{level} {{ --tone: var(--level-{level}) }}" for level in LEVELS]
    return Markup(_text("page.css").replace("{{ colours }}", "\n".join(colours)) + "\n".join(tones))


def _text(name: str) -> str:
    return files("oncelake.observe.report").joinpath(name).read_text(encoding="utf-8")


def _script(text: str) -> Markup:
    assert "</script" not in text.lower(), "a script must not close its own element"
    return Markup(text)
