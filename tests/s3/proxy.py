"""An S3 API for tests: S3Proxy from Maven artifacts over a directory, on a free port of 127.0.0.1."""

import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import HTTPError
from urllib.request import urlopen

from pipelines import jars
from pipelines.java import java_command
from tests.house import kill_group
from tests.services.server import free_port, wait_until_it_answers

PROXY = (("org.gaul", "s3proxy", "2.6.0"),)
# What Hadoop reads s3a:// with, of the version that Spark 4.0 ships; the SDK alone has 600 MB.
CLIENT = (("org.apache.hadoop", "hadoop-aws", "3.4.1"), ("software.amazon.awssdk", "bundle", "2.24.6"))
BUCKET = "lake"


class S3Proxy:
    """A bucket whose objects are files below a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.objects = directory / "objects"
        self.endpoint = f"http://127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def sets(self) -> list[str]:
        """What a run is told to reach it."""
        conf = {
            "spark.jars": jars.resolve(CLIENT, transitive=False).replace(os.pathsep, ","),
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.aws.credentials.provider": (
                "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
            ),
        }
        return [f"spark.conf.{key}={value}" for key, value in conf.items()]

    def __enter__(self) -> Self:
        (self.objects / BUCKET).mkdir(parents=True)
        settings = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "none",
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(self.objects),
            "jclouds.identity": "none",
            "jclouds.credential": "none",
        }
        properties = self.directory / "s3proxy.conf"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [java_command(), "-Xmx512m", "-cp", jars.resolve(PROXY, transitive=True), "org.gaul.s3proxy.Main"]
        with (self.directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--properties", str(properties)], stdout=log, stderr=log, start_new_session=True
            )
        wait_until_it_answers(self._process, self._ask, (self.directory / "log").read_text)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            kill_group(self._process)

    def _ask(self) -> None:
        try:
            urlopen(self.endpoint, timeout=2).close()
        except HTTPError:
            return  # it answers
