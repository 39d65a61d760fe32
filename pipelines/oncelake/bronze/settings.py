"""Settings of the source: where lines come from, and how much one batch reads."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ByteSize, Field, field_validator, model_validator

from oncelake.bronze.mask import MaskSettings
from oncelake.bronze.stand_in import HEAD, MAX_LINE
from oncelake.common.models import Options, Strict, later
from oncelake.common.time_zone import checked_zone
from oncelake.common.wording import shown

Rotation = Literal["rename", "copytruncate"]
_KAFKA_FIXED = {
    "bootstrap.servers": "set source.bootstrap_servers instead",
    "isolation.level": "it is always read_committed, so that aborted records are not counted",
    "enable.auto.commit": "the checkpoint keeps the position, not the consumer group",
    "auto.offset.reset": "a stage starts at the earliest offset, then continues from its checkpoint",
    "key.deserializer": "keys are kept as bytes",
    "value.deserializer": "lines are kept as bytes",
    "interceptor.classes": "an interceptor could change records",
}
_AUTO_LOADER_FIXED = {
    "format": "lines are read as text",
    "allowOverwrites": "an overwritten file would be read again",
    "maxFileAge": "files would be forgotten and read again",
    "includeExistingFiles": "existing files would be skipped",
    "partitionColumns": "bronze has no columns from directory names",
    "maxBytesPerTrigger": "set source.max_bytes_per_batch instead",
    "maxFilesPerTrigger": "set source.max_bytes_per_batch instead",
}
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
# The settings that each kind of source requires; sources/registry.py maps a kind to its class.
_REQUIRED = {
    "files": {"path": "a directory of log files"},
    "kafka": {"bootstrap_servers": "host:port"},
    "tail": {"path": "a directory of growing log files"},
}
# The settings that can hold passwords: they are never shown, and no check depends on them.
SECRETS = ("kafka",)


class SourceSettings(Strict):
    """Where lines come from."""

    kind: Literal["files", "kafka", "tail"] = Field(
        "files", description="a directory of complete log files, a Kafka topic, or a directory of files that grow"
    )
    path: str | None = Field(
        None, description="files: a directory, or any URL that Spark reads; tail: a directory on this machine"
    )
    bootstrap_servers: str | None = Field(None, description="kafka: host:port, comma-separated")
    topic: str | tuple[str, ...] = Field("alog", description="kafka: the topic, or a list of topics")
    topic_pattern: str | None = later(
        None,
        description="kafka: instead of `topic`, a Java regular expression for whole names of topics",
    )
    group_id: str | None = Field(
        None,
        min_length=1,
        max_length=249,
        description="kafka: the consumer group under which lag tools see the pipeline",
    )
    format: str = Field("default", description="a name in `conf/formats`, or the path of a format file")
    inside: str | dict[str, str | tuple[str, ...]] | None = later(
        None,
        description="what the lines carry as their message: the name of a format, or formats by the value of a field; "
        "unset: what the format says",
    )
    zone: Annotated[str, AfterValidator(checked_zone)] | None = later(
        None,
        description="the zone of times without one: an IANA name or an offset such as `+02:00`; unset: the format's",
    )
    kafka: Options = Field(
        default_factory=dict, repr=False, description="kafka: other client options, without the prefix `kafka.`"
    )
    auto_loader: Options = Field(
        default_factory=dict,
        description="files on Databricks: other Auto Loader options, without the prefix `cloudFiles.`",
    )
    renamed: Literal["same", "read"] = later(
        "same",
        description="files: what a file is whose size, time and lines are those of a file that was read and is gone: "
        "the same file, which is not read again, or another one, which is read",
    )
    max_bytes_per_batch: ByteSize = Field(
        ByteSize(512 * 1024**2),
        gt=0,
        description="files, tail: the most bytes that one batch reads; at least one file, or one line",
    )
    max_offsets_per_batch: int = Field(5_000_000, gt=0, description="kafka: the most records that one batch reads")
    rotation: Rotation | None = later(
        None,
        description="tail: how the logs are rotated. It decides whether a file that holds only what a log holds, under "
        "a rotated name of it, is a log of its own (`rename`) or a copy (`copytruncate`); unset, such a file waits",
    )
    max_line: ByteSize = later(
        MAX_LINE,
        ge=HEAD,
        le=1024**3,
        description="files, tail: a line with more bytes goes to quarantine, with its first kilobyte and its SHA-256",
    )
    mask: MaskSettings | None = later(None, description="rules that mask personal data before it is stored")

    @field_validator("topic", mode="before")
    @classmethod
    def _named(cls, topic: object) -> object:
        names = topic if isinstance(topic, list | tuple) else [topic]
        if not names:
            raise ValueError("expected a topic, or a list of topics, not an empty list")
        for name in names:
            if not isinstance(name, str | int) or not _TOPIC.fullmatch(str(name)):
                raise ValueError(f"{shown(name)} is no name of a topic: 1 to 249 of the characters a-z A-Z 0-9 . _ -")
        texts = [str(name) for name in names]
        twice = next((text for text in texts if texts.count(text) > 1), None)
        if twice is not None:
            raise ValueError(f"the list has topic {twice} twice; remove one of them")
        return texts[0] if len(texts) == 1 else tuple(texts)

    @field_validator("topic_pattern", mode="before")
    @classmethod
    def _unset_if_empty(cls, pattern: object) -> object:
        return pattern or None

    @property
    def topics(self) -> tuple[str, ...]:
        """The configured topics; empty if a pattern chooses them."""
        if self.topic_pattern is not None:
            return ()
        return (self.topic,) if isinstance(self.topic, str) else self.topic

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for name, what in _REQUIRED.get(self.kind, {}).items():
            if not getattr(self, name):
                hint = "; to read a topic, set source.kind to kafka" if self.bootstrap_servers and not self.path else ""
                raise ValueError(f"source.{name} is required for source.kind {self.kind}: {what}{hint}")
        if self.kind != "kafka" and self.group_id is not None:
            raise ValueError("source.group_id is a Kafka consumer group; remove it, or set source.kind to kafka")
        if self.topic_pattern is not None and (self.kind != "kafka" or "topic" in self.model_fields_set):
            other = "source.topic, which is set too" if self.kind == "kafka" else f"source.kind {self.kind}"
            raise ValueError(f"source.topic_pattern does not go together with {other}; remove one of them")
        if self.rotation is not None and self.kind != "tail":
            raise ValueError("source.rotation is for growing files; remove it, or set source.kind to tail")
        if self.kind != "files" and self.renamed != "same":
            raise ValueError(f"source.renamed is for source.kind files, not {self.kind}; remove it")
        _refuse_fixed("source.kafka", self.kafka, "kafka.", _KAFKA_FIXED)
        _refuse_fixed("source.auto_loader", self.auto_loader, "cloudFiles.", _AUTO_LOADER_FIXED)
        return self


def _refuse_fixed(section: str, options: Mapping[str, str], prefix: str, fixed: Mapping[str, str]) -> None:
    """Raise ValueError if an option is fixed, with or without its prefix: the guarantee depends on it."""
    for name in (key.removeprefix(prefix) for key in options):
        if name in fixed:
            raise ValueError(f"{section}.{name} cannot be set: {fixed[name]}")
