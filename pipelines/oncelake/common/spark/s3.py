"""What a Spark needs for a lake on S3: Hadoop's client, its settings, and a log store on which two drivers are safe."""

import os
from collections.abc import Collection, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from oncelake.common.errors import ConfigError
from oncelake.common.lake import Lake, scheme_of
from oncelake.common.spark import jars
from oncelake.common.spark.compiled import left_out
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.runtime import on_databricks
from oncelake.common.spark.versions import Artifact, installed

SCHEMES = ("s3", "s3a")
_CLASSES = ("S3LogStore", "S3Checkpoints")
_CLASS, _CHECKPOINT_CLASS = (f"oncelake.{name}" for name in _CLASSES)
# Delta's log store that keeps drivers apart by a table of DynamoDB.
_DYNAMO = "io.delta.storage.S3DynamoDBLogStore"
_SDK = "software.amazon.awssdk"
# The parts of Amazon's SDK that Hadoop's client loads, 9 MB; its bundle of all parts has 600 MB. Those that Spark ships
# itself (Netty, Apache's HTTP client) are not listed.
_PARTS = (
    *("annotations", "apache-client", "arns", "auth", "aws-core", "aws-query-protocol", "aws-xml-protocol"),
    *("checksums", "checksums-spi", "crt-core", "endpoints-spi", "http-auth", "http-auth-aws"),
    *("http-auth-aws-eventstream", "http-auth-spi", "http-client-spi", "identity-spi", "json-utils", "metrics-spi"),
    *("netty-nio-client", "profiles", "protocol-core", "regions", "retries", "retries-spi", "s3"),
    *("s3-transfer-manager", "sdk-core", "sts", "third-party-jackson-core", "utils"),
)
# By line of Spark: the Hadoop that it ships, the SDK of this Hadoop, its parts beside the above, and the version of the
# library that reads columns for it.
_VERSIONS: Mapping[str, tuple[str, str, tuple[str, ...], str]] = {
    "4.1": ("3.4.2", "2.29.52", (), "1.2.1"),
    "4.2": ("3.5.0", "2.35.4", ("utils-lite",), "1.3.1"),
}
# How often Delta tries again at a later version; and the version that the next commit of a table is to be, for our log
# store. Hadoop's settings, which a log store gets, hold those of the session.
_ATTEMPTS, _NEXT = "spark.databricks.delta.maxCommitAttempts", "spark.oncelake.next."
_CHECKPOINTS = "spark.sql.streaming.checkpointFileManagerClass"
# Hadoop's own list of where credentials come from has neither profiles nor the tokens of pods.
_CREDENTIALS = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,"
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
)


def is_s3(place: str) -> bool:
    """Return True if a place is on S3 or on a store with its API."""
    return scheme_of(place) in SCHEMES


def artifacts() -> tuple[Artifact, ...]:
    """Return the Java libraries for S3 that the installed Spark lacks.

    Raises:
        ConfigError: on this Spark two drivers are not safe on S3.
    """
    name = installed().name
    if name not in _VERSIONS:
        raise ConfigError(
            f"a place on S3 needs Spark {' or '.join(_VERSIONS)}, and this is {name}: its Hadoop cannot put a file "
            "only if the name is free, so two drivers would overwrite each other's commits. Install a newer PySpark: "
            "pip install 'pyspark>=4.2,<4.3'"
        )
    hadoop, sdk, more, columns = _VERSIONS[name]
    return (
        ("org.apache.hadoop", "hadoop-aws", hadoop),
        *((_SDK, part, sdk) for part in (*_PARTS, *more)),
        ("software.amazon.eventstream", "eventstream", "1.0.1"),
        ("org.reactivestreams", "reactive-streams", "1.0.4"),
        ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", columns),
    )


@dataclass(frozen=True)
class Places:
    """The places that a session reads and writes.

    Attributes:
        directories: the directories of tables and sources.
        checkpoints: the directory of the checkpoints.
    """

    directories: Collection[str] = ()
    checkpoints: str = ""

    @property
    def are_on_s3(self) -> bool:
        """Return True if one of them is on S3 or on a store with its API."""
        return any(map(is_s3, (*self.directories, self.checkpoints)))


NOWHERE = Places()


def class_path(places: Places) -> str:
    """Return the jars that places need, as a class path; download them the first time. Empty if none is on S3.

    Raises:
        ConfigError: on this Spark two drivers are not safe on S3.
        OncelakeError: they could not be downloaded.
    """
    return jars.resolve(artifacts(), transitive=False) if places.are_on_s3 else ""


def conf(places: Places, user_keys: Container[str] = ()) -> Mapping[str, str]:
    """Return the Spark settings for places on S3; empty if none is.

    The address, the region and the credentials are those that Amazon's own programs find in the environment; the
    user's settings of S3A go before them.

    Raises:
        ConfigError: the user sets another log store, or ours is not compiled.
    """
    if not places.are_on_s3:
        return {}
    for key in map(_log_store, SCHEMES):
        if key in user_keys:
            raise ConfigError(
                f"spark.conf.{key} replaces the log store that keeps two drivers on S3 apart; remove that setting"
            )
    if missing := [f"{name} ({left_out()[name]})" for name in _CLASSES if name in left_out()]:
        raise ConfigError(
            f"a place on S3 needs Java classes of oncelake's that are missing: {', '.join(missing)}; run: python -m "
            "oncelake.set_up"
        )
    settings = {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
    }
    settings |= {_log_store(scheme): _CLASS for scheme in SCHEMES}
    settings |= {f"spark.hadoop.fs.s3a.{key}": value for key, value in _client().items()}
    if is_s3(places.checkpoints):
        settings[_CHECKPOINTS] = _CHECKPOINT_CLASS
    return settings


def _client() -> Mapping[str, str]:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    own = {"endpoint": endpoint, "path.style.access": "true"} if endpoint else {}
    found = {**own, "endpoint.region": region or ("us-east-1" if endpoint else None)}
    return {"aws.credentials.provider": _CREDENTIALS, **{key: value for key, value in found.items() if value}}


def _log_store(scheme: str) -> str:
    return f"spark.delta.logStore.{scheme}.impl"


@contextmanager
def only_version(rows: DataFrame, at: str, version: int) -> Iterator[None]:
    """Let the next commit to a table on S3 be one version, or fail as a conflict; elsewhere do nothing.

    Delta commits an append at the next free version. So without this, two drivers that look at a table at the same
    moment both append to it.

    Args:
        rows: the rows of the commit, whose session commits.
        at: the table's path.
        version: the version that the commit is to be.
    """
    settings = {_ATTEMPTS: "0", f"{_NEXT}{at.partition(':')[2]}": str(version)} if is_s3(at) else {}
    try:
        for key, value in settings.items():
            rows.sparkSession.conf.set(key, value)
        yield
    finally:
        for key in settings:
            rows.sparkSession.conf.unset(key)


def check_two_drivers(spark: SparkSession, lake: Lake) -> None:
    """Check that of two drivers that commit to a lake on S3 at the same moment, the store refuses one.

    It puts two files under one name, and removes it: some six requests. Databricks has a commit service of its own.

    Raises:
        ConfigError: the session commits in another way, or the store ignores the condition of a put.
    """
    if lake.catalog is not None or not is_s3(lake.root) or on_databricks():
        return
    key = _log_store(scheme_of(lake.root))
    log_store = spark.sparkContext.getConf().get(key)  # Delta asks the context, not the session
    if log_store == _DYNAMO:
        return
    if log_store != _CLASS:  # guard: log-store-puts-if-absent
        raise ConfigError(
            f"this Spark commits to {lake.root} with {log_store or 'the log store of Delta Lake'}, and two drivers "
            "would overwrite each other's commits. Start it with the jar that python -m oncelake.set_up writes in "
            f"--jars, and with --conf {key}={_CLASS}"
        )
    hadoop_conf = spark._jsparkSession.sessionState().newHadoopConf()
    why = str(jvm(spark).oncelake.S3LogStore.check(lake.root, hadoop_conf))
    if why:  # guard: store-refuses-second-put
        raise ConfigError(
            f"lake.root {lake.root}: two drivers would overwrite each other's commits on this store, as {why}. Use a "
            "store that honours the header If-None-Match of a put, as Amazon's S3 does"
        )
