"""Silver and quarantine hold every line of a batch, or the batch fails: at the first start, and at each later one."""

import re
from typing import Any

import pytest

from oncelake.common.lake import QUARANTINE, SILVER, Table
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.writers import spark as writes
from tests.model import delta_model as delta
from tests.model.chain_model import place, replacing
from tests.model.exploring import finish
from tests.model.process import Texts
from tests.model.source_model import produce
from tests.model.spark_model import Frame


@pytest.mark.parametrize("kind", ["kafka", "files"])
@pytest.mark.parametrize(
    ("table", "more", "said"),
    [
        (SILVER, -1, "the numbers do not add up"),
        (SILVER, 1, "the numbers do not add up"),
        (QUARANTINE, -1, "the numbers do not add up"),
        (QUARANTINE, 1, r"silver\.quarantine got 2 rows of batch 0, but 1 was refused"),
    ],
)
def test_a_write_of_too_few_or_too_many_rows_fails_the_batch(kind: str, table: Table, more: int, said: str) -> None:
    def append(frame: Frame, path: str, metadata: CommitMetadata) -> None:
        rows = frame.rows
        if path == place(table):
            rows = rows[:-1] if more < 0 else [*rows, rows[-1]]
        delta.append(frame.process, path, rows, metadata, metadata.app_id)

    texts: Texts = {}
    produce(texts, kind)
    lossy: Any = {writes: {"append": append}}
    with replacing(lossy):
        ends = finish(texts, kind, 1)
    assert re.search(said, ends), ends
