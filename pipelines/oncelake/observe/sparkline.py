"""This is where numbers are drawn as a row of small bars."""

from collections.abc import Sequence

# without the full block, as the bars of two lines one below the other would run together
_BARS = "▁▂▃▄▅▆▇"
_ASCII = "_.:-=+#"


def sparkline(values: Sequence[float], width: int, *, ascii_only: bool = False) -> str:
    """Draw the last values, one bar each, the highest of them as the full one; zero is the lowest bar."""
    bars = _ASCII if ascii_only else _BARS
    last = [max(value, 0.0) for value in values[-width:]] if width > 0 else []
    top = max(last, default=0.0)
    return "".join(bars[round(value / top * (len(bars) - 1)) if top else 0] for value in last)
