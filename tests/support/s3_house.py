"""A lake in the bucket of a server, as a user declares it: by its URL, and by Amazon's variables in the environment."""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import deltalake
import pytest

from tests.support.house import House
from tests.support.processes import newest
from tests.support.s3_server import BUCKET, Server

# The settings with which each of the two writers commits the batches of a test.
WRITERS = pytest.mark.parametrize("writer", [[], ["run.small_batch=0"]], ids=["delta-rs", "spark"])


def variables(server: Server) -> Mapping[str, str]:
    """Return the environment variables that name a server, and credentials for it."""
    return {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ACCESS_KEY_ID": "anyone",
        "AWS_SECRET_ACCESS_KEY": "not a secret",
        "AWS_REGION": "us-east-1",
    }


def error_of(output: str) -> str:
    """Return the only line of an error in a command's output."""
    lines = [line for line in output.splitlines() if line.startswith("oncelake: ") and "warning" not in line]
    assert "Traceback" not in output
    assert len(lines) == 1, output
    return lines[0]


@dataclass
class S3House(House):
    """A lake in a bucket, read back by delta-rs.

    Attributes:
        server: the bucket.
        host: the name of the host on which drivers start; each host has a directory for the state of its user.
    """

    server: Server | None = None
    host: str = "one"

    @property
    def bucket(self) -> Server:
        assert self.server is not None
        return self.server

    @property
    def flags(self) -> list[str]:
        return [f"source.path={self.logs}", f"lake.root=s3://{BUCKET}/lake", *self.sets]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        own = {"AWS_ACCESS_KEY_ID": self.host, "XDG_STATE_HOME": str(self.root / self.host)}
        with mock.patch.dict(os.environ, {**variables(self.bucket), **own}):
            return super().start(*arguments)

    @property
    def checkpoints(self) -> Path:
        """Return the directory of the host's checkpoints."""
        return next((self.root / self.host / "oncelake").glob("*"), self.root / "none")

    def newest(self, step: str) -> int:
        """Return the highest number in a directory of the lake, -1 if there is none; the checkpoints are the host's."""
        below, _, rest = step.partition("/")
        if below == "_checkpoints":
            return newest(self.checkpoints / rest)
        names = (name.rpartition("/")[2] for name in self.bucket.names(f"lake/{step}"))
        return max((int(name.partition(".")[0]) for name in names if re.match(r"[0-9]+(\.json)?$", name)), default=-1)

    def rows(self, table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._open(table).to_pyarrow_table().to_pylist()
        return rows

    def size(self, table: str) -> int:
        return int(self._open(table).to_pyarrow_table().num_rows)

    def _open(self, table: str) -> deltalake.DeltaTable:
        options = {**variables(self.bucket), "AWS_ALLOW_HTTP": "true"}
        return deltalake.DeltaTable(f"s3://{BUCKET}/lake/{table}", storage_options=options)
