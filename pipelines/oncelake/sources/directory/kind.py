"""A source that is a directory: what the kinds of complete files and of growing files share."""

from abc import abstractmethod
from collections.abc import Collection
from pathlib import Path

from oncelake.common.errors import ConfigError
from oncelake.common.lake import is_local, place
from oncelake.sources.directory.bronze_files import BronzeFiles
from oncelake.sources.directory.census import Census
from oncelake.sources.kind import SourceKind
from oncelake.sources.proof import Ingestion


class DirectoryKind(SourceKind):
    """A source that is a directory of files."""

    needs_spark = False

    @abstractmethod
    def census(self, ingestion: Ingestion) -> tuple[Census, BronzeFiles]:
        """Account for the files; return the census, and what bronze holds."""

    @abstractmethod
    def planned(self, ingestion: Ingestion) -> Collection[str]:
        """Return the paths that no run reads again, whatever file is there."""

    @property
    def name(self) -> str:
        """The directory, in the form that Spark accepts."""
        return place(self.directory)

    @property
    def directory(self) -> str:
        """The directory, as configured."""
        assert self.settings.path is not None, "validated"
        return self.settings.path

    def check_here(self) -> None:
        """Raise ConfigError if the directory is on this machine and does not exist."""
        super().check_here()
        path = self.directory
        known = is_local(path) and not set(path) & set("*?[{")  # Spark checks URLs and patterns
        if known and not Path(place(path)).exists():
            raise ConfigError(
                f"{self.key}.path {path}: there is no such directory; create it, or set the directory with your logs"
            )
