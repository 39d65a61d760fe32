"""Start an S3 API for tests: S3Proxy from Maven artifacts, objects in its memory, on a free port of 127.0.0.1."""

import os
import re
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen
from xml.sax.saxutils import unescape

from oncelake.common.spark import jars
from oncelake.common.spark.java import java_command
from oncelake.common.spark.versions import Artifact, installed
from oncelake.lab.demo.server import free_port, wait_until_it_answers, write_properties
from tests.support.house import kill_group

PROXY = (("org.gaul", "s3proxy", "2.6.0"),)
# By line of Spark: the Hadoop that it ships, the SDK of this Hadoop (600 MB), Spark's own part (that of 4.1 is good for
# 4.2 as well), and a library that later Hadoops load.
_VERSIONS = {
    "4.0": ("3.4.1", "2.24.6", "4.0.0", None),
    "4.1": ("3.4.2", "2.29.52", "4.1.1", "1.2.1"),
    "4.2": ("3.5.0", "2.35.4", "4.1.1", "1.3.1"),
}
BUCKET = "lake"


def _client() -> tuple[Artifact, ...]:
    """Return what Hadoop needs to read s3a://."""
    hadoop, sdk, cloud, accelerator = _VERSIONS[installed().name]
    more = [("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", accelerator)] if accelerator else []
    return (
        *more,
        ("org.apache.hadoop", "hadoop-aws", hadoop),
        ("software.amazon.awssdk", "bundle", sdk),
        ("org.apache.spark", "spark-hadoop-cloud_2.13", cloud),
    )


class S3Proxy:
    """A bucket that ends with the process; its directory has the log."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.endpoint = f"http://127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def sets(self) -> list[str]:
        """Return the settings with which a run reaches it."""
        conf = {
            "spark.jars": jars.resolve(_client(), transitive=False).replace(os.pathsep, ","),
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            # a checkpoint file is written whole when it is closed: S3 has no renaming
            "spark.sql.streaming.checkpointFileManagerClass": (
                "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
            ),
            "spark.hadoop.fs.s3a.aws.credentials.provider": (
                "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
            ),
        }
        return [f"spark.conf.{key}={value}" for key, value in conf.items()]

    def __enter__(self) -> Self:
        settings = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "none",
            "jclouds.provider": "transient",
            "jclouds.identity": "none",
            "jclouds.credential": "none",
        }
        properties = write_properties(self.directory / "s3proxy.conf", settings)
        command = [java_command(), "-Xmx512m", "-cp", jars.resolve(PROXY, transitive=True), "org.gaul.s3proxy.Main"]
        with (self.directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--properties", str(properties)], stdout=log, stderr=log, start_new_session=True
            )
        wait_until_it_answers(self._process, self._ask, (self.directory / "log").read_text)
        self._call("PUT", BUCKET).close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            kill_group(self._process)

    def names(self, prefix: str) -> list[str]:
        """Return the keys that begin with a prefix."""
        with self._call("GET", f"{BUCKET}?list-type=2&prefix={quote(prefix)}") as answer:
            return [unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", answer.read().decode())]

    def delete(self, prefix: str) -> None:
        """Delete the objects whose keys begin with a prefix."""
        for name in self.names(prefix):
            self._call("DELETE", f"{BUCKET}/{quote(name)}").close()

    def _call(self, method: str, path: str) -> Any:
        return urlopen(Request(f"{self.endpoint}/{path}", method=method), timeout=10)

    def _ask(self) -> None:
        try:
            urlopen(self.endpoint, timeout=2).close()
        except HTTPError:
            return  # it answers
