"""This is where every setting is declared: its type, its default, what it is for."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ByteSize, Field, SecretStr, model_validator
from pydantic_settings import (
    BaseSettings,
    SettingsConfigDict,
)
from sqlalchemy.engine import URL

from oncelake.common.lake import Lake, place
from oncelake.common.models import Duration, Strict, shown
from oncelake.common.secrets import is_secret_reference, reveal
from oncelake.gold.declaration import GoldTable, check_table_name
from oncelake.quality.gate import GateSettings
from oncelake.serving.database import parse_url
from oncelake.serving.served import Mode
from oncelake.silver.transform import TimeLimits

ENV_PREFIX = "ONCELAKE_"
# They hold passwords; their values are never shown.
SECRET_KEYS = ("source.kafka", "serving.url", "serving.password", "spark.conf")

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
_SPARK_OWNED = (
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.extensions",
    "spark.sql.catalog.spark_catalog",
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.mapKeyDedupPolicy",
    "spark.databricks.delta.write.txn",
    "spark.databricks.delta.commitInfo.userMetadata",
    "spark.databricks.delta.properties.defaults.setTransactionRetentionDuration",
    "spark.master",
    "spark.driver.memory",
)


def _flat(value: object) -> object:
    """Write nested keys with dots, as Kafka and Spark spell them: {ssl: {protocol: x}} is ssl.protocol."""
    if not isinstance(value, Mapping):
        return value
    out: dict[str, object] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            flat = _flat(inner)
            assert isinstance(flat, dict)
            out.update({f"{key}.{rest}": each for rest, each in flat.items()})
        else:
            out[str(key)] = str(inner).lower() if isinstance(inner, bool) else inner
    return out


Options = Annotated[dict[str, str], BeforeValidator(_flat)]


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
        if self.kind == "files" and not self.path:
            raise ValueError("source.path is required for source.kind files: a directory of log files")
        if self.kind == "kafka" and not self.bootstrap_servers:
            raise ValueError("source.bootstrap_servers is required for source.kind kafka: host:port")
        if self.kind == "files" and self.group_id is not None:
            raise ValueError("source.group_id is a consumer group of Kafka; leave it out, or set source.kind to kafka")
        _refuse_fixed("source.kafka", self.kafka, "kafka.", _KAFKA_FIXED)
        _refuse_fixed("source.auto_loader", self.auto_loader, "cloudFiles.", _AUTO_LOADER_FIXED)
        return self


def _refuse_fixed(section: str, given: Mapping[str, str], prefix: str, fixed: Mapping[str, str]) -> None:
    """Refuse options that the guarantee rests on, with or without their prefix, and say why."""
    for name in (key.removeprefix(prefix) for key in given):
        if name in fixed:
            raise ValueError(f"{section}.{name} cannot be set: {fixed[name]}")


CatalogName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,254}$")]


class Schemas(Strict):
    """The layers' schemas in a catalog."""

    bronze: CatalogName = Field("bronze", description="with a catalog, bronze's schema")
    silver: CatalogName = Field("silver", description="with a catalog, silver's schema")
    gold: CatalogName = Field("gold", description="with a catalog, the gold tables' schema")


class LakeSettings(Strict):
    """Where the tables are: below a directory, or in a catalog."""

    root: str | None = Field(
        None,
        description="a directory, or any URL that Delta writes to; tables are `<root>/<layer>/<name>`",
        min_length=1,
    )
    catalog: CatalogName | None = Field(
        None,
        description="in place of a root: Unity Catalog's or `spark_catalog`; tables are `<catalog>.<schema>.<name>`",
    )
    schemas: Schemas = Schemas()

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.root is None) == (self.catalog is None):
            given = "both are given" if self.root else "neither is given"
            raise ValueError(f"lake.root is a directory for the tables, lake.catalog a catalog: {given}, one is needed")
        if self.schemas != Schemas() and self.catalog is None:
            raise ValueError("lake.schemas names schemas of a catalog; set lake.catalog, or leave it out")
        return self


def _is_url(value: SecretStr | None) -> SecretStr | None:
    if value is not None and not is_secret_reference(value.get_secret_value()):
        parse_url(value.get_secret_value())
    return value


class ServingSettings(Strict):
    """Which database counts are served from; none without a URL."""

    url: Annotated[SecretStr | None, AfterValidator(_is_url)] = Field(
        None, description="a SQLAlchemy URL of MySQL, MariaDB, PostgreSQL or SQLite; may be `{{secrets/scope/key}}`"
    )
    password: SecretStr | None = Field(
        None, description="the URL's password, when it is not in the URL; may be `{{secrets/scope/key}}`"
    )
    mode: Mode = Field(
        "idempotent", description="follow gold and put its values, or (`transactional`) follow silver and add counts"
    )
    tables: tuple[str, ...] = Field(("error_log",), description="the gold tables that are served")
    wait: Duration | None = Field(
        None,
        ge=timedelta(0),
        description="how long to wait for a database that is away; unset: for ever, 5 minutes with --once",
    )

    def address(self) -> URL:
        """Give the URL with its password.

        Raises:
            ConfigError: it is kept in a secret scope, and there is none here.
        """
        assert self.url is not None
        url = parse_url(reveal(self.url.get_secret_value()))
        if self.password is None or url.get_backend_name() == "sqlite":
            return url
        return url.set(password=reveal(self.password.get_secret_value()))


class QualitySettings(Strict):
    """What is expected of the tables' rows, and of a batch as a whole."""

    expectations: str | None = Field(
        None,
        description="a directory of suites, or `none`; unset: `expectations` beside the configuration, if it is there",
    )
    gate: GateSettings = GateSettings()


class RunSettings(Strict):
    """How `oncelake run` goes on."""

    trigger: Duration = Field(
        timedelta(milliseconds=250), ge=timedelta(0), description="a stage looks for input this often"
    )
    max_bytes_per_batch: ByteSize = Field(
        ByteSize(1024**3), gt=0, description="the most that silver and gold take from a table in one batch"
    )
    lock_wait: Duration = Field(timedelta(seconds=10), description="how long to wait for another run to end")


class MetricsSettings(Strict):
    """Where a run's figures can be fetched; nowhere without a port."""

    port: int | None = Field(None, ge=1, le=65535, description="serve Prometheus at this port while a run lasts")
    host: str = Field("127.0.0.1", min_length=1, description="the address that is listened at; it asks for no password")


def _not_owned(conf: dict[str, str]) -> dict[str, str]:
    for key in conf:
        if key.startswith(_SPARK_OWNED):
            raise ValueError(f"spark.conf.{key} cannot be set: oncelake's guarantee rests on its own value")
    return conf


class SparkSettings(Strict):
    """How Spark is started."""

    master: str = Field("local[*]", description="Spark's master URL")
    driver_memory: str = Field("2g", pattern=r"^\d+[mg]$", description="the JVM's heap")
    conf: Annotated[Options, AfterValidator(_not_owned)] = Field(
        default_factory=dict,
        repr=False,
        description="any further Spark setting; those that the guarantee rests on are refused, "
        "`spark.driver.extraJavaOptions` are added to oncelake's own",
    )


class Settings(BaseSettings):
    """All that one run is told."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix=ENV_PREFIX, env_nested_delimiter="__", hide_input_in_errors=True
    )

    source: SourceSettings
    lake: LakeSettings
    checkpoints: str | None = Field(
        None, description="where checkpoints are; unset: `<lake.root>/_checkpoints`; required with a catalog"
    )
    silver: TimeLimits = TimeLimits()
    quality: QualitySettings = QualitySettings()
    gold: dict[str, GoldTable] = Field(default_factory=dict, description="the gold tables, by name")
    serving: ServingSettings = ServingSettings()
    run: RunSettings = RunSettings()
    metrics: MetricsSettings = MetricsSettings()
    spark: SparkSettings = SparkSettings()

    @model_validator(mode="after")
    def _served_is_declared(self) -> Self:
        for name in self.serving.tables if self.serving.url else ():
            if name not in self.gold:
                declared = ", ".join(self.gold) or "none"
                raise ValueError(f"serving.tables names {shown(name)}, which is no gold table; declared: {declared}")
        return self

    @model_validator(mode="after")
    def _named(self) -> Self:
        for name in self.gold:
            check_table_name(name)
        return self

    @model_validator(mode="after")
    def _has_checkpoints(self) -> Self:
        if self.lake.catalog is not None and self.checkpoints is None:
            raise ValueError(
                "checkpoints is required with lake.catalog: a directory that all who run the chain reach, "
                "such as /Volumes/<catalog>/<schema>/checkpoints"
            )
        return self

    @model_validator(mode="after")
    def _apart(self) -> Self:
        """Refuse a lake below its own source: its files would be taken in as logs, for ever."""
        lake, path = self.places(), self.source.path
        if self.source.kind == "files" and path is not None:
            for key, inside in (("lake.root", lake.root), ("checkpoints", lake.checkpoints)):
                if f"{inside}/".startswith(f"{place(path)}/"):
                    raise ValueError(f"{key} {inside} is inside source.path {path}; keep the lake and the logs apart")
        return self

    def places(self) -> Lake:
        """Give the lake's places; with a catalog, what is kept beside the tables is beside the checkpoints."""
        checkpoints = place(self.checkpoints) if self.checkpoints else None
        if self.lake.root is None:
            assert checkpoints is not None, "validated"
            return Lake(checkpoints, checkpoints, self.lake.catalog, self.lake.schemas.model_dump())
        root = place(self.lake.root)
        return Lake(root, checkpoints or f"{root}/_checkpoints")
