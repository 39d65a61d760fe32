"""Write commits of a given time into a lake on the disk, without Spark."""

import json

from tests.support.house import House
from tests.support.memory import MemoryFiles, at, commit, metadata


def put(house: House, table: str, version: int, at_ms: int, **said: object) -> None:
    """Write a commit of ten rows at a time; `first` and `end` are the versions that it reads from and up to."""
    files, batch = MemoryFiles(), int(str(said.pop("batch", version - 1)))
    planned, first, end = said.pop("planned", at_ms), said.pop("first", 0), said.pop("end", 0)
    after = f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":{planned}}}\n{json.dumps(at(int(str(end))))}'
    before = json.dumps(at(int(str(first)))) if first else None
    commit(files, table, version, metadata(batch, table.replace("/", "."), before=before, after=after, **said))
    ((name, text),) = files.texts.items()
    text = text.replace(f'"timestamp":{1000 + version}', f'"timestamp":{at_ms}')
    path = house.lake / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + '\n{"add":{"path":"x","dataChange":true}}')
