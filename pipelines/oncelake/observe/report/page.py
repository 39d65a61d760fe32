"""This is where facts become one page that needs nothing but itself: no network, no file beside it.

What comes from a log is text: Jinja escapes every value, JSON in the page cannot end its element, and the page's own
policy lets no script run but the two whose hash it names, so that a text that got through could still do nothing.
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
from oncelake.observe.report.contents import contents
from oncelake.observe.report.facts import Facts
from oncelake.observe.report.figures import LEVELS, bins, each_bin, figures
from oncelake.observe.status import backlog_words


def page(facts: Facts, number: int | None = None) -> str:
    """Make the page.

    Args:
        facts: what it tells.
        number: for a page that is served and looks for news, which look at the lake it shows.
    """
    script, plotly = (_script(each) for each in (_text("page.js"), get_plotlyjs()))
    told = contents(facts) | {"live": number is not None, "number": number}
    policy = policy_for((script, plotly), live=number is not None)
    told_to_script = {"figures": figures(facts), "facts": facts.to_dict()}
    data = htmlsafe_json_dumps(told_to_script, separators=(",", ":"), allow_nan=False)
    text: str = _template().render(told, policy=policy, css=_css(), data=data, plotly=plotly, script=script)
    return text


def parts(facts: Facts) -> dict[str, str]:
    """Give the parts of the page that change, each as HTML, by the names of their places."""
    template = _template()
    context = template.new_context(contents(facts) | {"live": True, "number": 0})
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
        "bytes": size,
        "share": share,
        "text": lambda value: printable(value, 2_000),  # what could act on a screen is escaped
    }
    environment.globals["m"] = environment.get_template("macros.html.j2").module
    return environment.get_template("page.html.j2")


@cache
def _css() -> Markup:
    levels = [f"  --level-{level}: light-dark({light}, {dark});" for level, (light, dark) in LEVELS.items()]
    tones = [f".level-{level} {{ --tone: var(--level-{level}) }}" for level in LEVELS]
    return Markup(_text("page.css").replace("{{ levels }}", "\n".join(levels)) + "\n".join(tones))


def _text(name: str) -> str:
    return files("oncelake.observe.report").joinpath(name).read_text(encoding="utf-8")


def _script(text: str) -> Markup:
    assert "</script" not in text.lower(), "a script that ends its own element"
    return Markup(text)
