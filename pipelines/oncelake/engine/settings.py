"""Compose the settings: each layer declares its own section, a run's and the lake's are here."""

from datetime import timedelta
from typing import Annotated, Self

from pydantic import ByteSize, Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from oncelake.bronze.settings import SourceSettings
from oncelake.bronze.sources.registry import kind_of
from oncelake.common.lake import Lake, place
from oncelake.common.models import Duration, Strict, shown
from oncelake.common.spark.settings import SparkSettings
from oncelake.gold.declaration import GoldTable, check_table_name
from oncelake.quality.settings import QualitySettings
from oncelake.serving.settings import ServingSettings
from oncelake.silver.transform import TimeLimits

ENV_PREFIX = "ONCELAKE_"
# They hold passwords; their values are never shown.
SECRET_KEYS = ("source.kafka", "serving.url", "serving.password", "spark.conf")

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
        lake, path = self.places(), kind_of(self.source).directory
        if path is not None:
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
