"""This is where a configuration file, the environment and flags become one typed, strict value."""

import os
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import AfterValidator, BeforeValidator, ByteSize, Field, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from pipelines.errors import ConfigError
from pipelines.gold.declaration import GoldTable, check_table_name
from pipelines.lake import Lake, place
from pipelines.silver.transform import TimeLimits
from pipelines.strict import Strict, one_line, shown

ENV_PREFIX = "ONCELAKE_"
# Kafka client options hold passwords; their values are never shown.
SECRET_KEYS = ("source.kafka",)

_KAFKA_FIXED = {
    "bootstrap.servers": "set source.bootstrap_servers instead",
    "isolation.level": "it is always read_committed, or aborted records would be counted",
    "enable.auto.commit": "the checkpoint keeps the position, never the consumer group",
    "auto.offset.reset": "a stage starts at the earliest offset and goes on where it was",
    "key.deserializer": "keys are kept as bytes",
    "value.deserializer": "lines are kept as bytes",
    "interceptor.classes": "an interceptor could change records on their way",
}
_SPARK_OWNED = (
    "spark.sql.extensions",
    "spark.sql.catalog.spark_catalog",
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.legacy.timeParserPolicy",
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


def _duration(value: object) -> object:
    """Read `2 seconds`, `500 milliseconds`, `1 day`; anything else goes on to pydantic's own forms."""
    units = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
    match = re.fullmatch(r"(\d+(?:\.\d+)?) (millisecond|second|minute|hour|day)s?", str(value))
    return timedelta(seconds=float(match[1]) * units[match[2]]) if match else value


Duration = Annotated[timedelta, BeforeValidator(_duration)]


class SourceSettings(Strict):
    """Where lines come from."""

    kind: Literal["files", "kafka"] = Field("files", description="a directory of log files, or a Kafka topic")
    path: str | None = Field(None, description="files: a directory, or any URL that Spark reads")
    bootstrap_servers: str | None = Field(None, description="kafka: host:port, several by commas")
    topic: str = Field("alog", description="kafka: the topic", pattern=r"^[a-zA-Z0-9._-]{1,249}$")
    format: str = Field("default", description="a name in conf/formats, or the path of such a file")
    kafka: Options = Field(
        default_factory=dict, repr=False, description="kafka: any further client option, without `kafka.`"
    )
    max_bytes_per_batch: ByteSize = Field(
        ByteSize(512 * 1024**2), gt=0, description="files: the most that one batch takes in"
    )
    max_offsets_per_batch: int = Field(5_000_000, gt=0, description="kafka: the most records that one batch takes in")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "files" and not self.path:
            raise ValueError("source.path is required for source.kind files: a directory of log files")
        if self.kind == "kafka" and not self.bootstrap_servers:
            raise ValueError("source.bootstrap_servers is required for source.kind kafka: host:port")
        for key in self.kafka:
            name = key.removeprefix("kafka.")
            if name in _KAFKA_FIXED:
                raise ValueError(f"source.kafka.{name} cannot be set: {_KAFKA_FIXED[name]}")
        return self


class LakeSettings(Strict):
    """Where the tables are."""

    root: str = Field(description="a directory, or any URL that Delta writes to", min_length=1)


class RunSettings(Strict):
    """How `oncelake run` goes on."""

    trigger: Duration = Field(timedelta(seconds=1), ge=timedelta(0), description="a stage looks for input this often")
    max_bytes_per_batch: ByteSize = Field(
        ByteSize(1024**3), gt=0, description="the most that silver and gold take from a table in one batch"
    )
    lock_wait: Duration = Field(timedelta(seconds=10), description="how long to wait for another run to end")


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
        default_factory=dict, description="any further Spark setting"
    )


class Settings(BaseSettings):
    """All that one run is told."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix=ENV_PREFIX, env_nested_delimiter="__", hide_input_in_errors=True
    )

    source: SourceSettings
    lake: LakeSettings
    checkpoints: str | None = Field(None, description="where checkpoints are, `<lake.root>/_checkpoints` when unset")
    silver: TimeLimits = TimeLimits()
    gold: dict[str, GoldTable] = Field(default_factory=dict)
    run: RunSettings = RunSettings()
    spark: SparkSettings = SparkSettings()

    @model_validator(mode="after")
    def _named(self) -> Self:
        for name in self.gold:
            check_table_name(name)
        return self

    def places(self) -> Lake:
        """Give the lake's places."""
        root = place(self.lake.root)
        return Lake(root, place(self.checkpoints) if self.checkpoints else f"{root}/_checkpoints")

    def formats(self, conf: Path) -> list[Path]:
        """Give the directories that a format's name is looked up in: the configuration's own first."""
        return [conf.parent / "formats", Path("conf/formats"), shipped_conf() / "formats"]


def load(conf: Path, sets: Sequence[str] = ()) -> Settings:
    """Read the configuration: the file, over it the environment, over that the `--set` flags.

    Raises:
        ConfigError: the file is missing or no YAML mapping, a key is unknown, a value is not accepted.
    """
    in_file = _read(conf)
    _refuse_unknown_environment()

    class Loaded(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the library's signature
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, InitSettingsSource(settings_cls, in_file)

    try:
        return Loaded(**_from_flags(sets))
    except ValidationError as error:
        raise ConfigError(f"{conf} with environment and --set: {one_line(error, secret=SECRET_KEYS)}") from None
    except SettingsError as error:
        raise ConfigError(f"environment: {error}; a nested value is given as JSON") from None


def shipped_conf() -> Path:
    """Give the directory of the configuration that comes with the program."""
    packaged = Path(__file__).parent / "_conf"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / "conf"


def _read(conf: Path) -> dict[str, Any]:
    try:
        text = conf.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"there is no configuration file {conf} (looked in {Path.cwd()}); name one with -c, "
            f"or start from {shipped_conf() / 'local.yaml'}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file {conf} cannot be read: {error}") from None
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{conf} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{conf}: a mapping of settings is expected, not {shown(value)}")
    return value


def _refuse_unknown_environment() -> None:
    known = set(Settings.model_fields)
    for name in os.environ:
        if name.upper().startswith(ENV_PREFIX):
            field = name[len(ENV_PREFIX) :].lower().split("__")[0]
            if field not in known:
                raise ConfigError(
                    f"environment variable {name}: there is no such setting; "
                    f"{ENV_PREFIX}<section>__<key>, the sections are {', '.join(sorted(known))}"
                )


def _from_flags(sets: Sequence[str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for each in sets:
        key, equals, value = each.partition("=")
        if not equals or not all(key.split(".")):
            raise ConfigError(
                f"--set {each.partition('=')[0]}: expected dotted.key=value, as in --set lake.root=/tmp/lake"
            )
        at = out
        *parents, last = key.split(".")
        for part in parents:
            at = at.setdefault(part, {})
            if not isinstance(at, dict):
                raise ConfigError(f"--set {key}: {part} was already given a value of its own")
        at[last] = _value(value)
    return out


def _value(text: str) -> Any:
    """Read a list or a mapping as YAML; all else stays text, and the setting's own type reads it."""
    if not text.startswith(("{", "[")):
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
