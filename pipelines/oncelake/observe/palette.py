"""The colors of the report and of the notebooks, each as a pair: for a light and for a dark background.

Neighboring colors also differ in lightness, and no two levels differ only in red and green, so color-blind readers can
distinguish them.
"""

from collections.abc import Mapping, Sequence

Pair = tuple[str, str]

LEVELS: Mapping[str, Pair] = {
    "other": ("#c8ccd2", "#4b525c"),
    "TRACE": ("#d5dbe3", "#3f4854"),
    "DEBUG": ("#b4c4d6", "#52647a"),
    "INFO": ("#7ea6cf", "#5f8fc0"),
    "WARN": ("#f0b429", "#e0ad3c"),
    "ERROR": ("#c8412b", "#f0674d"),
    "FATAL": ("#6b1d5c", "#d08ac4"),
}
# One color per stage of a layer.
STAGES: Mapping[str, Sequence[Pair]] = {
    "bronze": (("#a2622f", "#cf8a54"),),
    "silver": (("#64748b", "#a3b1c4"),),
    "gold": (("#c99700", "#e9be3d"), ("#7d6200", "#b3922a"), ("#a8842c", "#d2c08a")),
    "serving": (("#1f7a6d", "#4db6a5"), ("#2d5f8a", "#6fa4d4")),
}
# Series without a meaning of their own, such as rules and groups.
SERIES: Sequence[Pair] = (
    *(("#2d5f8a", "#6fa4d4"), ("#c99700", "#e9be3d"), ("#a2622f", "#cf8a54"), ("#1f7a6d", "#4db6a5")),
    *(("#8a4b7d", "#c992bd"), ("#64748b", "#a3b1c4"), ("#b4c4d6", "#52647a")),
)
# All that is not a series of its own: the groups that are not shown one by one, the usual values beside a peak.
REST: Pair = ("#a3abb5", "#6b7480")
# Three shades of one color, from weak to strong.
SHADES: Sequence[Pair] = (("#9fb8cc", "#2f4f6b"), ("#4c7ba3", "#4f86b3"), ("#1f3f5b", "#a9cdec"))
# From low to high values of a heat map.
SCALE: Sequence[tuple[float, Pair]] = (
    *((0.0, ("#f6f1ee", "#22262c")), (0.25, ("#f2c9b8", "#5c2a22"))),
    *((0.6, ("#c8412b", "#c24a35")), (1.0, ("#5b1230", "#ffb4a4"))),
)
# The page itself: background, surfaces, texts, lines, and the three tones of a result.
PAGE: Mapping[str, Pair] = {
    "bg": ("#f7f7f5", "#14171b"),
    "card": ("#ffffff", "#1b1f24"),
    "ink": ("#1a1e24", "#e6e9ed"),
    "soft": ("#59616d", "#a3acb8"),
    "line": ("#e2e4e7", "#2e343c"),
    "grid": ("#eceef0", "#282d34"),
    "link": ("#22567f", "#8dbde6"),
    "good": ("#17653f", "#6fcf9d"),
    "good-bg": ("#e9f4ee", "#173226"),
    "bad": ("#a8231a", "#ff9d8f"),
    "bad-bg": ("#fcebe9", "#3b1c19"),
    "open": ("#735300", "#e6c46a"),
    "open-bg": ("#fdf5de", "#332a12"),
}


def light(pairs: Mapping[str, Pair]) -> dict[str, str]:
    """Return the colors for a light background, by name."""
    return {name: pair[0] for name, pair in pairs.items()}
