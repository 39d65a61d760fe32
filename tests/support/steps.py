"""The durable steps of the chain's batches, in order, and the lines of two batches."""

from collections.abc import Iterator

WRITES = {
    "bronze": ["bronze/access_log"],
    "silver": ["silver/access_log", "silver/quarantine"],
    "gold/error_log": ["gold/error_log"],
    "serving/error_log": [],
}
LINES = (
    [b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:09:59 error two", b"broken", b"2017-07-30 14:10:00 INFO three"],
    [b"2017-06-20 00:00:01 ERROR 40 days late", b"2017-07-30 14:09:08 ERROR one", b"broken as well"],
)


def steps(batch: int, *, large: bool) -> Iterator[str]:
    """Yield every file that a batch of the chain writes, in order."""
    for stage, tables in WRITES.items():
        checkpoint = f"_checkpoints/{stage}"
        if batch == 0:
            yield from (f"{table}/_delta_log/{0:020}.json" for table in tables)
            yield f"{checkpoint}/metadata"
        if stage == "bronze":
            yield f"{checkpoint}/sources/0/{batch}"
        yield f"{checkpoint}/offsets/{batch}"
        for table in tables:
            if large and not table.startswith("gold"):
                yield f"{table}/_staged-*/_SUCCESS"
            yield f"{table}/_delta_log/{batch + 1:020}.json"
        yield f"{checkpoint}/commits/{batch}"
