"""The settings: each layer declares its own section; the sections of the lake, a run and the metrics are here."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from typing import Annotated, Self

from pydantic import ByteSize, Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from oncelake.bronze.records import Records
from oncelake.bronze.settings import SECRETS, SourceSettings
from oncelake.common.lake import (
    BRONZE,
    Lake,
    bronze_of,
    bronze_stage,
    checkpoints_below,
    checkpoints_here,
    is_local,
    is_s3,
    place,
)
from oncelake.common.models import Duration, Strict, later
from oncelake.common.spark.runtime import on_databricks
from oncelake.common.spark.settings import SparkSettings
from oncelake.common.wording import did_you_mean, shown
from oncelake.engine.alerts import AlertSettings, check_alert
from oncelake.gold.declaration import GoldTable, check_table_name
from oncelake.quality.settings import QualitySettings
from oncelake.serving.settings import ServingSettings
from oncelake.silver.settings import SilverSettings
from oncelake.sources.directory.overlap import Claims
from oncelake.sources.kind import SourceKind
from oncelake.sources.registry import kind_of

ENV_PREFIX = "ONCELAKE_"
NO_SOURCE = "source: is required"
# Settings that can hold passwords; their values are never shown.
SECRET_KEYS = (
    *(
        f"{source}.{key}"
        for source in ("source", "sources.*")
        for key in (*SECRETS, "auto_loader", "mask.key_variable")
    ),
    "serving.url",
    "serving.password",
    "serving.options",
    "spark.conf",
    "alerts.*.to",
)

CatalogName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,254}$")]


class Schemas(Strict):
    """The layers' schemas in a catalog."""

    bronze: CatalogName = Field("bronze", description="bronze's schema in the catalog")
    silver: CatalogName = Field("silver", description="silver's schema in the catalog")
    gold: CatalogName = Field("gold", description="the gold tables' schema in the catalog")
    quality: CatalogName = Field("quality", description="the schema of the audits' results in the catalog")


class LakeSettings(Strict):
    """The place of the tables: a directory or a catalog."""

    root: str | None = Field(
        None,
        description="a directory, or a URL that Delta can write to, such as `s3://bucket/lake`; a table is at "
        "`<root>/<layer>/<name>`",
        min_length=1,
    )
    catalog: CatalogName | None = Field(
        None,
        description="a catalog of Unity Catalog, or `spark_catalog`, instead of a root; a table is "
        "`<catalog>.<schema>.<name>`",
    )
    schemas: Schemas = Schemas()

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.root is None) == (self.catalog is None):
            fault = "both are set" if self.root else "neither is set"
            raise ValueError(f"lake.root is a directory for the tables, lake.catalog a catalog: {fault}; set one")
        if self.schemas != Schemas() and self.catalog is None:
            raise ValueError("lake.schemas names schemas of a catalog; set lake.catalog, or remove lake.schemas")
        return self


class RunSettings(Strict):
    """How `oncelake run` works."""

    trigger: Duration = Field(
        timedelta(milliseconds=250), ge=timedelta(0), description="how often a run looks for new input in the source"
    )
    max_bytes_per_batch: ByteSize = Field(
        ByteSize(1024**3), gt=0, description="the most bytes that silver and gold read from a table in one batch"
    )
    small_batch: ByteSize = Field(
        ByteSize(32 * 1024**2),
        ge=0,
        description="on a local disk and on S3, rows of a batch of at most this many bytes are collected, and on a "
        "local disk larger ones are appended as files; both without Spark's slower writer; 0: Spark commits every "
        "batch",
    )
    lock_wait: Duration = Field(
        timedelta(seconds=10), description="how long to wait for another process to release the lake's lock"
    )


class MetricsSettings(Strict):
    """The endpoint of a run's metrics; without a port there is none."""

    port: int | None = Field(None, ge=1, le=65535, description="serve Prometheus metrics on this port during a run")
    host: str = Field("127.0.0.1", min_length=1, description="the address to listen on; no password is asked for")


class OpenLineageSettings(Strict):
    """The OpenLineage events of a run; where they go, OpenLineage's own variables and file say."""

    enabled: bool = Field(False, description="send a START and a COMPLETE event for each batch of each stage")
    namespace: str = Field(
        "oncelake", min_length=1, description="the namespace of the jobs, which are the lake's stages"
    )


class Settings(BaseSettings):
    """All settings of one lake."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix=ENV_PREFIX, env_nested_delimiter="__", hide_input_in_errors=True
    )

    source: SourceSettings | None = Field(None, description="the source of a lake with one source")
    sources: dict[str, SourceSettings] = later(
        {}, description="the sources of a lake with several, by name, each with the keys of `source`"
    )
    lake: LakeSettings
    checkpoints: str | None = Field(
        None,
        description="the directory of the checkpoints; unset: `<lake.root>/_checkpoints`, of a new lake on S3 a "
        "directory below `~/.local/state/oncelake`; required with a catalog",
    )
    silver: SilverSettings = SilverSettings()
    quality: QualitySettings = QualitySettings()
    gold: dict[str, GoldTable] = Field(default_factory=dict, description="the gold tables, by name")
    serving: ServingSettings = ServingSettings()
    run: RunSettings = RunSettings()
    metrics: MetricsSettings = MetricsSettings()
    openlineage: OpenLineageSettings = OpenLineageSettings()
    spark: SparkSettings = SparkSettings()
    alerts: dict[str, AlertSettings] = later({}, description="who is told when a condition holds, by the alert's name")

    @model_validator(mode="after")
    def _has_source(self) -> Self:
        if self.source is not None and self.sources:
            raise ValueError(
                "source and sources are both set: name the one source access_log in sources, and remove source"
            )
        if self.source is None and not self.sources:
            raise ValueError(NO_SOURCE)
        for name in self.sources:
            check_table_name(name)
        kinds = {name: kind_of(source) for name, source in self.sources.items()}
        for (one, first), (other, second) in combinations(kinds.items(), 2):
            if first.overlaps(second):
                raise ValueError(
                    f"sources.{one} and sources.{other} both read {second.words_with_place}: its lines would count "
                    "twice; remove one of them"
                )
        return self

    @model_validator(mode="after")
    def _served_is_declared(self) -> Self:
        for name in self.serving.served:
            if name not in self.gold:
                declared, close = ", ".join(self.gold) or "none", did_you_mean(name, self.gold)
                raise ValueError(
                    f"serving.tables names {shown(name)}, which is not a gold table; declared: {declared}{close}"
                )
        return self

    @model_validator(mode="after")
    def _named(self) -> Self:
        for name in self.gold:
            check_table_name(name)
        return self

    @model_validator(mode="after")
    def _alerts_fit(self) -> Self:
        measures = {name: tuple(table.measures) for name, table in self.gold.items()}
        stages = [
            *map(bronze_stage, self.by_name),
            "silver",
            *(f"gold.{name}" for name in self.gold),
            *(f"serving.{name}" for name in self.serving.served),
        ]
        for name, alert in self.alerts.items():
            check_alert(name, alert, measures, stages)
            condition = alert.condition
            if condition.subject == "gold" and self.gold[condition.table].zone is not None:
                raise ValueError(
                    f"alerts.{name}.when: gold.{condition.table} has windows in a zone, which have no fixed length; "
                    "declare a table without a zone for the alert"
                )
        return self

    @model_validator(mode="after")
    def _has_checkpoints(self) -> Self:
        if self.lake.catalog is not None and self.checkpoints is None:
            raise ValueError(
                "checkpoints is required with lake.catalog: set it to a directory that every process of the chain can "
                "reach, such as /Volumes/<catalog>/<schema>/checkpoints"
            )
        return self

    @model_validator(mode="after")
    def _apart(self) -> Self:
        """Refuse a lake below its own source directory: its files would be ingested as logs, forever."""
        lake = self.places()
        for kind in self.kinds().values():
            for key, inside in (("lake.root", lake.root), ("checkpoints", lake.checkpoints)):
                if kind.directory is not None and f"{inside}/".startswith(f"{place(kind.directory)}/"):
                    places = f"{key} {inside} is inside {kind.key}.path {kind.directory}"
                    raise ValueError(f"{places}; keep the lake and the logs apart")
        return self

    @property
    def by_name(self) -> Mapping[str, SourceSettings]:
        """The sources by name; the one source of a lake without `sources` is named access_log."""
        return self.sources or ({BRONZE.name: self.source} if self.source is not None else {})

    def kinds(self, records: Mapping[str, Records | None] | None = None) -> dict[str, SourceKind]:
        """Return the configured sources by name.

        Args:
            records: how each source's log format puts several lines together; only reading needs it.
        """
        claims = Claims(self.local_paths)
        return {
            name: replace(
                kind_of(source, (records or {}).get(name)),
                table=bronze_of(name),
                key=f"sources.{name}" if self.sources else "source",
                claims=claims,
                beside={other: settings for other, settings in self.by_name.items() if other != name},
                lake=self.places(),
            )
            for name, source in self.by_name.items()
        }

    @property
    def local_paths(self) -> Mapping[str, str]:
        """The paths of the sources that read files of this machine, by their keys."""
        directories = {f"sources.{name}": kind_of(source).directory for name, source in self.sources.items()}
        return {key: place(path) for key, path in directories.items() if path is not None and is_local(path)}

    def places(self) -> Lake:
        """Return the lake's places; with a catalog, the files next to the tables go to the checkpoints' directory."""
        checkpoints = place(self.checkpoints) if self.checkpoints else None
        if self.lake.root is None:
            assert checkpoints is not None, "validated"
            return Lake(checkpoints, checkpoints, self.lake.catalog, self.lake.schemas.model_dump())
        root = place(self.lake.root)
        here = checkpoints_here(root) if checkpoints is None and is_s3(root) and not on_databricks() else None
        return Lake(root, checkpoints or here or checkpoints_below(root), per_host=here is not None)
