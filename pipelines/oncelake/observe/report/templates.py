"""Grouping of messages by template: what differs from line to line becomes a placeholder.

The result depends on the messages alone, not on their order.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# No more characters of a message are looked at; the rest of a long message rarely tells two kinds apart.
LONGEST = 300
ANY = "<*>"
# A word becomes a placeholder if this many templates, each with as many words as one of these, differ in it alone.
_VALUES, _WORDS = 3, range(4, 31)
# Each pattern's alternatives cannot match one text in two ways, so a long message costs no more than its length.
_MASKS = tuple(
    (re.compile(pattern), placeholder)
    for pattern, placeholder in (
        (r'"[^"]*"|(?<![\w])\'[^\']*\'(?![\w])', "<text>"),
        (r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "<id>"),
        (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?Z?)?\b", "<time>"),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", "<ip>"),
        (r"\b0[xX][0-9a-fA-F]+\b|\b(?=[a-fA-F]*\d)(?=\d*[a-fA-F])[0-9a-fA-F]{8,}\b", "<hex>"),
        (r"(?<![\w<])[-+]?\d+(?:[.,]\d+)*(?=(?:[kKMGT]?i?B|[mun]?s|min|h|d)?(?!\w))", "<n>"),
        (r"\b(?=[A-Za-z_-]*\d)(?=[\w-]*[A-Za-z])[\w-]*\d[\w-]*\b", "<id>"),
    )
)


@dataclass(frozen=True)
class Group:
    """The messages of one template.

    Attributes:
        template: the text that they share, with placeholders for what differs.
        count: how many they are.
        example: the most frequent of them, as given.
    """

    template: str
    count: int
    example: str


def template_of(message: str) -> str:
    """Return a message's first line with placeholders for quoted texts, numbers, times, addresses and identifiers."""
    text = message[:LONGEST].split("\n", 1)[0]
    for pattern, placeholder in _MASKS:
        text = pattern.sub(placeholder, text)
    return " ".join(text.split())


def grouped(messages: Iterable[str]) -> list[Group]:
    """Group messages by template, the most frequent first."""
    counts = Counter(messages)
    templates = {message: template_of(message) for message in counts}
    joined = _joined(sorted(set(templates.values())))
    members: dict[str, list[str]] = defaultdict(list)
    for message, template in templates.items():
        members[joined.get(template, template)].append(message)
    groups = (
        Group(template, sum(counts[member] for member in own), min(own, key=lambda member: (-counts[member], member)))
        for template, own in members.items()
    )
    return sorted(groups, key=lambda group: (-group.count, group.template))


def _joined(templates: Sequence[str]) -> Mapping[str, str]:
    """Return the common template of templates that differ in one word, such as a user's name."""
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for template in templates:
        words = template.split(" ")
        if len(words) in _WORDS:
            for at in range(len(words)):
                alike[(*words[:at], ANY, *words[at + 1 :])].append(template)
    joined: dict[str, str] = {}
    for common, same in sorted(alike.items(), key=lambda item: (-len(item[1]), item[0])):
        free = [text for text in same if text not in joined]
        if len(free) >= _VALUES:
            joined |= dict.fromkeys(free, " ".join(common))
    return joined
