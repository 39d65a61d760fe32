"""Name what a stage reads and writes by OpenLineage's rules.

Source: https://openlineage.io/docs/spec/naming. It has no rule for SQLite, and none for a sink of the user's own.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from oncelake.common.errors import OncelakeError
from oncelake.common.lake import Table, is_local, place
from oncelake.engine.chain import Chain
from oncelake.engine.graph import Stage
from oncelake.exactly_once.positions import as_object
from oncelake.serving.settings import ServingSettings

# The name that the rules give a database, and its port if the URL has none.
_DATABASES = {"mysql": ("mysql", 3306), "mariadb": ("mysql", 3306), "postgresql": ("postgres", 5432)}
# The stores whose names are keys in a bucket, without a leading slash, by the scheme of their URLs.
_BUCKETS = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "wasb": "wasbs", "wasbs": "wasbs"}


@dataclass(frozen=True, order=True)
class DatasetName:
    """The name of a dataset, which is unique in its namespace."""

    namespace: str
    name: str


@dataclass(frozen=True)
class Datasets:
    """The names of what the stages of a chain read and write."""

    chain: Chain

    def inputs(self, stage: Stage, position: str | None) -> list[DatasetName]:
        """Return what a stage reads; of a topic, those of a position."""
        if stage.reads:
            return [self.table(table) for table in stage.reads]
        kind = self.chain.kind(stage)
        if kind.directory is not None:
            return [file_name(kind.directory)]
        servers = (kind.settings.bootstrap_servers or "").split(",")
        at = as_object(position)
        topics = sorted(at) if isinstance(at, Mapping) else kind.settings.topics
        return [DatasetName(f"kafka://{servers[0].strip()}", topic) for topic in topics]

    def outputs(self, stage: Stage) -> dict[str, DatasetName]:
        """Return what a stage writes, by table."""
        names = {str(target.table): self.table(target.table) for target in stage.writes}
        if stage.served is not None:
            names[str(stage.served.table)] = served_name(self.chain.settings.serving, stage.served.table.name)
        return names

    def table(self, table: Table) -> DatasetName:
        """Return the name of a table of the lake."""
        lake = self.chain.lake
        if lake.catalog is None:
            return file_name(lake.at(table))
        schema = lake.schemas.get(table.layer, table.layer)
        workspace = self._conf("spark.databricks.workspaceUrl")
        if workspace:
            return DatasetName(f"unitycatalog://{workspace}", f"{lake.catalog}.{schema}.{table.name}")
        metastore = urlsplit(self._conf("spark.hadoop.hive.metastore.uris").split(",")[0]).netloc
        if metastore:
            return DatasetName(f"hive://{metastore}", f"{schema}.{table.name}")
        return DatasetName(lake.catalog, f"{schema}.{table.name}")

    def _conf(self, key: str) -> str:
        with suppress(Exception):  # not every Spark shows all its settings
            if self.chain.spark is not None:
                return str(self.chain.spark.conf.get(key, "") or "")
        return ""


def file_name(path: str) -> DatasetName:
    """Return the name of a directory on this machine or in a store."""
    at = place(path)
    if is_local(path):
        return DatasetName("file", at)
    url = urlsplit(at)
    scheme = _BUCKETS.get(url.scheme)
    if scheme is not None:
        return DatasetName(f"{scheme}://{url.netloc}", url.path.lstrip("/"))
    return DatasetName(f"{url.scheme}://{url.netloc}", url.path or "/")


def served_name(settings: ServingSettings, table: str) -> DatasetName:
    """Return the name of a served table; no user name and no password are in it."""
    with suppress(OncelakeError):  # a secret that only the run can read
        if settings.url is not None:
            url = settings.address()
            kind = url.get_backend_name()
            if kind == "sqlite":
                return DatasetName(f"sqlite://{place(url.database) if url.database else ''}", table)
            name, port = _DATABASES.get(kind, (kind, 0))
            schema = "public." if name == "postgres" else ""
            return DatasetName(f"{name}://{url.host}:{url.port or port}", f"{url.database}.{schema}{table}")
    return DatasetName(f"sink://{settings.sink or 'sql'}", table)
