"""Tamper with checkpoints, tables and sources outside the chain, as people do."""

import json
from collections.abc import Iterator

from oncelake.common.lake import BRONZE, QUARANTINE, SILVER
from tests.model import delta_model as delta
from tests.model.chain_model import STAGES, TABLES, checkpoint, place
from tests.model.process import Texts
from tests.model.source_model import DIRECTORY, MORE, NAME, TOPIC

Tampered = tuple[str, Texts]


def tamperings(texts: Texts) -> Iterator[Tampered]:
    """Yield every single act of tampering that changes something, each on a copy."""
    for what, changed in _deeds(texts):
        if changed != texts:
            yield what, changed


def _deeds(texts: Texts) -> Iterator[Tampered]:
    for stage in STAGES:
        yield from _checkpoint_deeds(texts, stage)
    yield "all checkpoints deleted", without(texts, *(checkpoint(stage) for stage in STAGES))
    for table in TABLES:
        yield from _table_deeds(texts, place(table))
    if TOPIC in texts:
        yield from _topic_deeds(texts)
    listed = "".join(text for path, text in texts.items() if path.startswith(f"{checkpoint('bronze')}/sources/"))
    held = json.loads(texts.get(DIRECTORY, "{}"))
    for path in (each for each in held if each in listed):
        left = {each: numbers for each, numbers in held.items() if each != path}
        yield f"{path} deleted", {**texts, DIRECTORY: json.dumps(left)}


def _checkpoint_deeds(texts: Texts, stage: str) -> Iterator[Tampered]:
    where = checkpoint(stage)
    last = {log: f"{where}/{log}/{_last(texts, f'{where}/{log}')}" for log in ("offsets", "commits", "sources/0")}
    groups = {
        "checkpoint": (where,),
        "metadata": (f"{where}/metadata",),
        "offsets": (f"{where}/offsets",),
        "commits": (f"{where}/commits",),
        "sources": (f"{where}/sources",),
        "last offsets": (last["offsets"],),
        "last commits": (last["commits"],),
        "last offsets and commits": (last["offsets"], last["commits"]),
        "last sources": (last["sources/0"],),
        "offsets and commits": (f"{where}/offsets", f"{where}/commits"),
        "all but metadata": (f"{where}/offsets", f"{where}/commits", f"{where}/sources"),
    }
    for what, paths in groups.items():
        yield f"{stage}: {what} deleted", without(texts, *paths)
    for path in (f"{where}/metadata", *last.values()):
        for length in (0, 5):
            if path in texts:
                yield f"{path} cut to {length}", {**texts, path: texts[path][:length]}


def _table_deeds(texts: Texts, table: str) -> Iterator[Tampered]:
    newest = delta.newest(texts, table)
    for version in sorted({each for each in (0, newest - 1) if 0 <= each < newest}):
        changed = dict(texts)
        delta.restore(changed, table, version)
        yield f"{table} restored to {version}", changed
    if newest > 0:
        yield f"{table}: old copy put back", without(texts, delta.log_path(table, newest))
        changed = dict(texts)
        delta.maintain(changed, table)
        yield f"{table} compacted", changed
    yield f"{table} deleted", without(texts, table)


def _topic_deeds(texts: Texts) -> Iterator[Tampered]:
    """Change the topic once the chain knows it: what was deleted before, the chain cannot miss."""
    topic = json.loads(texts[TOPIC])
    if f"{checkpoint('bronze')}/offsets/0" in texts:
        full = {number: len(held) for number, held in topic["rows"].items()}
        yield "topic trimmed", {**texts, TOPIC: json.dumps({**topic, "earliest": full})}
        empty: dict[str, list[int]] = {number: [] for number in topic["rows"]}
        yield "topic recreated, empty", {**texts, TOPIC: json.dumps({**topic, "id": "topic 1", "rows": empty})}
    if delta.notes(texts, place(BRONZE)):
        longer = {"0": list(range(100, 120, 2)), "1": list(range(101, 121, 2))}
        more = {
            TOPIC: json.dumps({**topic, "id": "topic 1", "rows": longer}),
            MORE: json.dumps([*longer["0"], *longer["1"]]),
        }
        yield "topic recreated, longer", {**texts, **more}
        held = {number: len(rows) for number, rows in topic["rows"].items()}
        if json.loads(delta.notes(texts, place(BRONZE))[-1].end or "{}").get(NAME) == held:
            others = {"0": [200, 202], "1": [201, 203]}
            refilled = {number: [*rows[:-1], *others[number]] for number, rows in topic["rows"].items()}
            numbers = {MORE: json.dumps([*others["0"], *others["1"]])}
            yield "topic cut and refilled", {**texts, TOPIC: json.dumps({**topic, "rows": refilled}), **numbers}


def is_left_to_prove(texts: Texts, what: str) -> bool:
    """Return whether a start cannot detect an act: see test_tampering, `test_an_old_copy_of_quarantine_is_detected`."""
    if what not in ("lake/silver/quarantine: old copy put back", "lake/silver/quarantine deleted"):
        return False
    last = [delta.notes(texts, place(table))[-1:] for table in (SILVER, QUARANTINE)]
    return [metadata.batch_id for metadata in last[0]] == [metadata.batch_id for metadata in last[1]]


def with_old_checkpoint(texts: Texts, old: Texts, *stages: str) -> Texts:
    """Replace the checkpoints of stages by an earlier copy."""
    places = [checkpoint(stage) for stage in stages]
    kept = without(texts, *places)
    return {
        **kept,
        **{path: text for path, text in old.items() if path.startswith(tuple(f"{each}/" for each in places))},
    }


def without(texts: Texts, *paths: str) -> Texts:
    """Delete files, and directories with their contents."""
    inside = tuple(f"{path}/" for path in paths)
    return {path: text for path, text in texts.items() if path not in paths and not path.startswith(inside)}


def _last(texts: Texts, log: str) -> int:
    names = (path.removeprefix(f"{log}/") for path in texts if path.startswith(f"{log}/"))
    return max((int(name) for name in names if name.isdigit()), default=-1)
