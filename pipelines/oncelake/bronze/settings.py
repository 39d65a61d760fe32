"""The settings of the source: where lines come from, and how many a batch reads."""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import ByteSize, Field, model_validator

from oncelake.common.models import Options, Strict

_KAFKA_FIXED = {
    "bootstrap.servers": "set source.bootstrap_servers instead",
    "isolation.level": "it is always read_committed, or aborted records would be counted",
    "enable.auto.commit": "the checkpoint keeps the position, never the consumer group",
    "auto.offset.reset": "a stage starts at the earliest offset and goes on where it was",
    "key.deserializer": "keys are kept as bytes",
    "value.deserializer": "lines are kept as bytes",
    "interceptor.classes": "an interceptor could change records on their way",
}
_AUTO_LOADER_FIXED = {
    "format": "lines are read as text",
    "allowOverwrites": "a file that is written again would be taken in again",
    "maxFileAge": "files would be forgotten, and taken in again",
    "includeExistingFiles": "files that were there before would be left out",
    "partitionColumns": "bronze has no columns made of directory names",
    "maxBytesPerTrigger": "set source.max_bytes_per_batch instead",
    "maxFilesPerTrigger": "set source.max_bytes_per_batch instead",
}
# What a kind of source cannot be without; its class is named in sources/registry.py.
_REQUIRED = {"files": {"path": "a directory of log files"}, "kafka": {"bootstrap_servers": "host:port"}}


class SourceSettings(Strict):
    """Where lines come from."""

    kind: Literal["files", "kafka"] = Field("files", description="a directory of log files, or a Kafka topic")
    path: str | None = Field(None, description="files: a directory, or any URL that Spark reads")
    bootstrap_servers: str | None = Field(None, description="kafka: host:port, several by commas")
    topic: str = Field("alog", description="kafka: the topic", pattern=r"^[a-zA-Z0-9._-]{1,249}$")
    group_id: str | None = Field(
        None, min_length=1, max_length=249, description="kafka: the consumer group that lag tools see the pipeline as"
    )
    format: str = Field("default", description="a name in `conf/formats`, or the path of such a file")
    kafka: Options = Field(
        default_factory=dict, repr=False, description="kafka: any further client option, without its `kafka.`"
    )
    auto_loader: Options = Field(
        default_factory=dict,
        description="files on Databricks: any further option of Auto Loader, without its `cloudFiles.`",
    )
    max_bytes_per_batch: ByteSize = Field(
        ByteSize(512 * 1024**2), gt=0, description="files: the most that one batch takes in, one file at least"
    )
    max_offsets_per_batch: int = Field(5_000_000, gt=0, description="kafka: the most records that one batch takes in")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for name, what in _REQUIRED.get(self.kind, {}).items():
            if not getattr(self, name):
                raise ValueError(f"source.{name} is required for source.kind {self.kind}: {what}")
        if self.kind != "kafka" and self.group_id is not None:
            raise ValueError("source.group_id is a consumer group of Kafka; leave it out, or set source.kind to kafka")
        _refuse_fixed("source.kafka", self.kafka, "kafka.", _KAFKA_FIXED)
        _refuse_fixed("source.auto_loader", self.auto_loader, "cloudFiles.", _AUTO_LOADER_FIXED)
        return self


def _refuse_fixed(section: str, given: Mapping[str, str], prefix: str, fixed: Mapping[str, str]) -> None:
    """Refuse options that the guarantee rests on, with or without their prefix, and say why."""
    for name in (key.removeprefix(prefix) for key in given):
        if name in fixed:
            raise ValueError(f"{section}.{name} cannot be set: {fixed[name]}")
