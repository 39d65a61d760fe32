"""What a Spark needs to reach an S3 API: Hadoop's S3A by the line of Spark, and its settings."""

import os

from oncelake.common.spark import jars
from oncelake.common.spark.versions import Artifact, installed

# By line of Spark: the Hadoop that it ships, the SDK of this Hadoop (600 MB), Spark's own part (that of 4.1 is good for
# 4.2 as well), and a library that later Hadoops load.
_VERSIONS = {
    "4.0": ("3.4.1", "2.24.6", "4.0.0", None),
    "4.1": ("3.4.2", "2.29.52", "4.1.1", "1.2.1"),
    "4.2": ("3.5.0", "2.35.4", "4.1.1", "1.3.1"),
}


def _libraries() -> tuple[Artifact, ...]:
    """Return what Hadoop needs to read s3a://."""
    hadoop, sdk, cloud, accelerator = _VERSIONS[installed().name]
    more = [("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", accelerator)] if accelerator else []
    return (
        *more,
        ("org.apache.hadoop", "hadoop-aws", hadoop),
        ("software.amazon.awssdk", "bundle", sdk),
        ("org.apache.spark", "spark-hadoop-cloud_2.13", cloud),
    )


def settings(endpoint: str) -> list[str]:
    """Return the settings with which a run reaches the bucket of a server."""
    conf = {
        "spark.jars": jars.resolve(_libraries(), transitive=False).replace(os.pathsep, ","),
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        # a checkpoint file is written whole when it is closed: S3 has no renaming
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
        ),
        "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
    }
    return [f"spark.conf.{key}={value}" for key, value in conf.items()]
