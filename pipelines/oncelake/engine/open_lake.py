"""One open lake: its settings, its chain, and the Spark session that starts when it is needed first."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession

from oncelake.common.lake import checkpoints_below
from oncelake.common.spark.machine import low_limits
from oncelake.common.spark.runtime import is_given, untested_runtime
from oncelake.common.spark.s3 import Places, has_lease
from oncelake.common.spark.session import spark_session
from oncelake.engine.chain import Chain, chain_of, keeping_duplicates, needs_spark, tables_need_spark
from oncelake.engine.configuration import code_places, configured
from oncelake.engine.settings import Settings
from oncelake.exactly_once.files import files_at
from oncelake.silver.parsing.parser import Parser


def unheard(*_: object) -> None:
    """Ignore a call: the default for callbacks that the caller did not set."""


@dataclass
class OpenLake:
    """A lake whose settings are read; Spark stops when it is closed.

    Attributes:
        settings: the settings from the file, the environment and `sets`.
        parsers: the parser of each source's log format, by the source's name.
        conf: the configuration file that `open` got; formats and suites are looked up in directories next to it.
        warn, verbose, started: see `open`.
    """

    settings: Settings
    parsers: Mapping[str, Parser]
    conf: Path | None
    warn: Callable[[str], None] = unheard
    verbose: bool = False
    started: Callable[[], None] = unheard
    _spark: SparkSession | None = field(default=None, repr=False)
    _ending: ExitStack = field(default_factory=ExitStack, init=False, repr=False)
    _has_looked: bool = field(default=False, init=False, repr=False)

    @classmethod
    def open(
        cls,
        conf: str | PathLike[str] | None = None,
        sets: Sequence[str] = (),
        *,
        spark: SparkSession | None = None,
        warn: Callable[[str], None] = unheard,
        verbose: bool = False,
        started: Callable[[], None] = unheard,
    ) -> Self:
        """Read the configuration of a lake. Start nothing and change nothing.

        Args:
            conf: the configuration file. Without it, `conf/local.yaml` is read if it exists; otherwise the shipped
                one applies, and `sets` or the environment must name the source and the lake.
            sets: settings that override the file, such as `lake.root=/tmp/lake`.
            spark: the session to use; without it, one is started when it is needed, and stopped when the lake closes.
            warn: called with each warning about a problem that does not stop the work.
            verbose: True to show Spark's own log.
            started: called after Spark was started; Spark sets its own signal handlers.

        Raises:
            ConfigError: the configuration is missing or invalid.
        """
        path = Path(conf) if conf is not None else None
        return cls(*configured(path, sets), path, warn, verbose, started, spark)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the Spark that was started for this lake."""
        self._ending.__exit__(kind, error, trace)

    @property
    def spark(self) -> SparkSession:
        """Return the session; start Spark if there is none yet.

        Raises:
            ConfigError: the exactly-once guarantee does not hold on this Spark; the message says why.
        """
        return self._session()

    def _session(self, *, quick: bool = False) -> SparkSession:
        """Return the session; start Spark if there is none yet, with `quick` for work of a few seconds."""
        if self._spark is None:
            self._warn(untested_runtime() if is_given() else low_limits(self.settings.spark))  # guard: low-limit-warned
            self._spark = self._ending.enter_context(
                spark_session(self.settings.spark, verbose=self.verbose, quick=quick, places=self._places)
            )
            self.started()
        self._find_checkpoints(self._spark)
        return self._spark

    def _find_checkpoints(self, spark: SparkSession) -> None:
        """Leave the checkpoints on S3 if the lake has them there, or no lease; only Spark can look."""
        if self._has_looked or not (lake := self.settings.places()).per_host:
            return
        on_store = checkpoints_below(lake.root)
        if not has_lease(spark, lake) or files_at(on_store, spark).names(on_store):  # guard: checkpoints-stay-on-store
            self.settings = self.settings.model_copy(update={"checkpoints": on_store})
            self.__dict__.pop("_declared", None)
        self._has_looked = True

    @property
    def _places(self) -> Places:
        """The places that Spark reads and writes."""
        lake = self.settings.places()
        sources = (source.path for source in self.settings.by_name.values())
        return Places(lake.root, lake.checkpoints, [*filter(None, sources)])

    @property
    def chain(self) -> Chain:
        """Return the declared chain: with Spark if it was started, or if its states cannot be read without Spark.

        Raises:
            ConfigError: a suite of expectations is invalid.
        """
        return self._chain(with_spark=needs_spark(self.settings))

    @property
    def _table_chain(self) -> Chain:
        """Return the declared chain to read its tables, not its sources: Spark starts less often than for `chain`.

        Raises:
            ConfigError: a suite of expectations is invalid.
        """
        return self._chain(with_spark=tables_need_spark(self.settings))

    @property
    def _look_chain(self) -> Chain:
        """Return the declared chain to look at it closely: with the session of someone else, if there is one.

        Raises:
            ConfigError: a suite of expectations is invalid.
        """
        return replace(self._chain(with_spark=is_given() or needs_spark(self.settings)), deep=True)

    def _chain(self, *, with_spark: bool) -> Chain:
        if with_spark:
            self._session()
        chain = self._declared
        if self._spark is not None:
            chain = replace(chain, spark=self._spark, deep=True, compared={})
        return keeping_duplicates(chain)

    @cached_property
    def _declared(self) -> Chain:
        """Return the declared chain without a session; the suites are read only once."""
        return chain_of(self.settings, self.parsers, places=code_places(self.conf))

    @property
    def _with_spark(self) -> tuple[Chain, SparkSession]:
        """Return the chain with a session, and the session."""
        spark = self.spark
        return self.chain, spark

    def _warn(self, warnings: Iterable[str]) -> None:
        for text in warnings:
            self.warn(text)
