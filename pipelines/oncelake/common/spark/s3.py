"""What a Spark needs for a lake on S3: Hadoop's client, its settings, and a log store on which two drivers are safe."""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.explain import cause_of
from oncelake.common.lake import S3, Lake, endpoint, is_s3, scheme_of
from oncelake.common.spark import jars
from oncelake.common.spark.compiled import left_out
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.runtime import has_class, on_databricks
from oncelake.common.spark.versions import Artifact, installed

_LOG_STORE, _CHECKPOINT_WRITER = "S3LogStore", "S3Checkpoints"
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
# The version that the next commit of a table is to be, for our log store: Hadoop's settings, which it gets, hold those
# of the session. Delta's own compaction after a commit would be the version after it.
_NEXT, _COMPACTION = "spark.oncelake.next.", "spark.databricks.delta.autoCompact.enabled"
_LOG_STORES = {scheme: f"spark.delta.logStore.{scheme}.impl" for scheme in S3}
_CHECKPOINTS = "spark.sql.streaming.checkpointFileManagerClass"
# By setting, the classes with which two drivers on S3 are safe, ours first.
_SAFE: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_LOG_STORES.values(), (f"oncelake.{_LOG_STORE}", _DYNAMO)),
    _CHECKPOINTS: (f"oncelake.{_CHECKPOINT_WRITER}",),
}
_CLIENT = "spark.hadoop.fs.s3a."
_SET_BY_SPARK = f"{_CLIENT}vectored.read."
# The variables with which delta-rs commits in another way than by a put under a condition.
_OTHER_COMMITS = frozenset(
    {"AWS_S3_LOCKING_PROVIDER", "AWS_S3_ALLOW_UNSAFE_RENAME", "AWS_COPY_IF_NOT_EXISTS", "COPY_IF_NOT_EXISTS"}
)
# Hadoop's own list of where credentials come from has neither profiles nor the tokens of pods.
_CREDENTIALS = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,"
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
)


def artifacts() -> tuple[Artifact, ...]:
    """Return the Java libraries for S3 that the installed Spark lacks; none if they are not known."""
    name = installed().name
    if name not in _VERSIONS:
        return ()
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
        root: the directory of the tables.
        checkpoints: the directory of the checkpoints.
        sources: the directories of the sources.
    """

    root: str = ""
    checkpoints: str = ""
    sources: Collection[str] = ()

    @property
    def written(self) -> bool:
        """Return True if tables or checkpoints are on S3 or on a store with its API."""
        return is_s3(self.root) or is_s3(self.checkpoints)

    @property
    def are_on_s3(self) -> bool:
        """Return True if any of them is."""
        return self.written or any(map(is_s3, self.sources))


NOWHERE = Places()


def class_path(places: Places) -> str:
    """Return the jars that places need, as a class path; download them the first time. Empty if none is on S3.

    Raises:
        OncelakeError: they could not be downloaded.
    """
    needed = artifacts() if places.are_on_s3 else ()
    return jars.resolve(needed, transitive=False) if needed else ""


def conf(places: Places, user_keys: Mapping[str, str]) -> Mapping[str, str]:
    """Return the Spark settings for places on S3; empty if none is.

    The address, the region and the credentials are those that Amazon's own programs find in the environment; the
    user's settings of S3A go before them.

    Args:
        places: the places.
        user_keys: the settings of the user.

    Raises:
        ConfigError: two drivers would not be safe: by this Spark, by a setting, or as our classes are not compiled.
    """
    if not places.are_on_s3:
        return {}
    if places.written:
        _check_writing(user_keys)
    settings = {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
    }
    settings |= {f"{_CLIENT}{key}": value for key, value in _client().items()}
    keys = [
        *(_LOG_STORES.values() if is_s3(places.root) else ()),
        *([_CHECKPOINTS] if places.written else ()),  # a lake on S3 can have them there
    ]
    return settings | {key: _SAFE[key][0] for key in keys}


def _check_writing(user_keys: Mapping[str, str]) -> None:
    name = installed().name
    if name not in _VERSIONS:  # guard: spark-puts-if-absent
        raise ConfigError(
            f"a lake on S3 needs Spark {' or '.join(_VERSIONS)}, and this is {name}: its Hadoop cannot put a file only "
            "if the name is free, so two drivers would overwrite each other's commits. Install a newer PySpark: pip "
            "install 'pyspark>=4.2,<4.3'"
        )
    for key, safe in _SAFE.items():
        if user_keys.get(key, safe[0]) not in safe:  # guard: own-classes-on-s3
            raise ConfigError(
                f"spark.conf.{key} is {user_keys[key]}, and two drivers on S3 would overwrite each other's files; "
                "remove that setting: oncelake has its own for S3"
            )
    reasons = left_out()
    if missing := [f"{name} ({reasons[name]})" for name in (_LOG_STORE, _CHECKPOINT_WRITER) if name in reasons]:
        raise ConfigError(
            f"a lake on S3 needs Java classes of oncelake's that are missing: {', '.join(missing)}; run: python -m "
            "oncelake.set_up"
        )


def _client() -> Mapping[str, str]:
    address = endpoint()
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    settings = {"aws.credentials.provider": _CREDENTIALS}
    if address:
        settings |= {"endpoint": address, "path.style.access": "true"}
    if region or address:
        settings["endpoint.region"] = region or "us-east-1"
    return settings


def delta_rs_options(spark: SparkSession, root: str) -> Mapping[str, str] | None:
    """Return how delta-rs reaches tables on S3 and commits as our log store does; None if only Spark may commit.

    That is so if the session commits by another log store, or has settings of S3A that are not ours, as delta-rs knows
    neither: it finds the address, the region and the credentials as Amazon's own programs do. And if the environment
    lets delta-rs itself commit in another way.

    Args:
        spark: the session that commits too.
        root: the directory of the tables.
    """
    ours = {f"{_CLIENT}{key}": value for key, value in _client().items()}
    used = dict(spark.sparkContext.getConf().getAll())
    # guard: delta-rs-reaches-as-spark
    if {key: used[key] for key in used if key.startswith(_CLIENT) and not key.startswith(_SET_BY_SPARK)} != ours:
        return None
    log_store = _LOG_STORES[scheme_of(root)]
    if used.get(log_store) != _SAFE[log_store][0] or any(key.upper() in _OTHER_COMMITS for key in os.environ):
        return None
    address, region = ours.get(f"{_CLIENT}endpoint"), ours.get(f"{_CLIENT}endpoint.region")
    return {
        "AWS_CONDITIONAL_PUT": "etag",
        **({"AWS_ENDPOINT_URL": address, "AWS_ALLOW_HTTP": "true"} if address else {}),
        **({"AWS_REGION": region} if region else {}),
    }


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
    is_ours = is_s3(at) and not on_databricks()
    settings = {_COMPACTION: "false", f"{_NEXT}{at.partition(':')[2]}": str(version)} if is_ours else {}
    try:
        for key, value in settings.items():
            rows.sparkSession.conf.set(key, value)
        yield
    finally:
        for key in settings:
            rows.sparkSession.conf.unset(key)


def check_lake(spark: SparkSession, lake: Lake) -> None:
    """Check a lake in the same way as a place, see `check_two_drivers`; a catalog says itself where its tables are."""
    if lake.catalog is None:
        check_two_drivers(spark, lake.root, lake.checkpoints)


def has_lease(spark: SparkSession, lake: Lake) -> bool:
    """Return True if a lease keeps the drivers of a lake apart: it is on S3, and commits with our log store."""
    if lake.catalog is not None or not is_s3(lake.root) or on_databricks():
        return False
    log_store = _LOG_STORES[scheme_of(lake.root)]
    return spark.sparkContext.getConf().get(log_store) == _SAFE[log_store][0]


def check_two_drivers(spark: SparkSession, root: str, checkpoints: str = "") -> None:
    """Check that of two drivers that commit to tables on S3 at the same moment, the store refuses one.

    It puts two files under one name, and removes it: some six requests. Databricks has a commit service of its own.

    Args:
        spark: the session that commits.
        root: the directory of the tables, or a table's path; nothing is checked if it is not on S3.
        checkpoints: the directory of the checkpoints.

    Raises:
        ConfigError: the session commits in another way, or the store ignores the condition of a put.
        OncelakeError: nothing can be put there.
    """
    if not is_s3(root) or on_databricks():
        return
    log_store = _LOG_STORES[scheme_of(root)]
    used = {log_store: spark.sparkContext.getConf().get(log_store)}  # Delta asks the context, not the session
    if is_s3(checkpoints):
        used[_CHECKPOINTS] = spark.conf.get(_CHECKPOINTS, None)
    others = {key: value or "unset" for key, value in used.items() if value not in _SAFE[key]}
    if others:  # guard: log-store-puts-if-absent
        raise ConfigError(
            f"this Spark writes to {root} with {', '.join(f'{key}: {value}' for key, value in others.items())}, and "
            "two drivers would overwrite each other's files. Start it with the jar that python -m oncelake.set_up "
            f"writes in --jars, and with {' '.join(f'--conf {key}={_SAFE[key][0]}' for key in others)}"
        )
    if used[log_store] == _DYNAMO:
        return
    if not has_class(spark, f"oncelake.{_LOG_STORE}"):
        raise ConfigError(
            f"this Spark is to commit to {root} with oncelake.{_LOG_STORE}, and does not have that class: give it the "
            "jar that python -m oncelake.set_up writes in --jars"
        )
    try:
        refuses = jvm(spark).oncelake.S3LogStore.refusesSecond(
            root, spark._jsparkSession.sessionState().newHadoopConf()
        )
    except Py4JJavaError as error:
        raise OncelakeError(
            f"nothing can be put below {root}: {cause_of(error)}. Check the address, the credentials, and the right to "
            "put"
        ) from None
    if not refuses:  # guard: store-refuses-second-put
        raise ConfigError(
            f"{root}: two drivers would overwrite each other's commits on this store, as it let a second file replace "
            "the first one under the same name. Use a store that honours the header If-None-Match of a put, as "
            "Amazon's S3 does"
        )
