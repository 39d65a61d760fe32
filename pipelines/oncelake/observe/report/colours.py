"""This is where the colours of levels, stages and rules are, for light and for dark.

Neighbours differ in lightness too, so that who cannot tell the hues apart tells the bars apart.
"""

from collections.abc import Iterable, Iterator
from itertools import cycle

Pair = tuple[str, str]

LEVELS: dict[str, Pair] = {
    "other": ("#c8ccd2", "#4b525c"),
    "TRACE": ("#d5dbe3", "#3f4854"),
    "DEBUG": ("#b4c4d6", "#52647a"),
    "INFO": ("#7ea6cf", "#5f8fc0"),
    "WARN": ("#f0b429", "#e0ad3c"),
    "ERROR": ("#c8412b", "#f0674d"),
    "FATAL": ("#6b1d5c", "#d08ac4"),
}
_STAGES: dict[str, tuple[Pair, ...]] = {
    "bronze": (("#a2622f", "#cf8a54"),),
    "silver": (("#64748b", "#a3b1c4"),),
    "gold": (("#c99700", "#e9be3d"), ("#7d6200", "#b3922a"), ("#a8842c", "#d2c08a")),
    "serving": (("#1f7a6d", "#4db6a5"), ("#2d5f8a", "#6fa4d4")),
}
_RULES: tuple[Pair, ...] = (
    *(("#64748b", "#a3b1c4"), ("#c99700", "#e9be3d"), ("#2d5f8a", "#6fa4d4"), ("#a2622f", "#cf8a54")),
    *(("#1f7a6d", "#4db6a5"), ("#8a4b7d", "#c992bd"), ("#b4c4d6", "#52647a")),
)


def stage_colours(stages: Iterable[str]) -> Iterator[tuple[str, Pair]]:
    """Give stages their colours, one that comes again the same."""
    used = {layer: cycle(colours) for layer, colours in _STAGES.items()}
    for stage in dict.fromkeys(stages):
        yield stage, next(used[stage.split(".")[0]])


def rule_colours(rules: Iterable[str]) -> Iterator[tuple[str, Pair]]:
    """Give rules their colours."""
    return zip(rules, cycle(_RULES), strict=False)
