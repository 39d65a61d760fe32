"""Find, identify and import a function of the user's own code, such as `fleet.columns:enrich`.

Finding runs no code of the user: the identity comes from the source files. So every command can compare identities,
and only the commands that make rows of silver import the function.
"""

import hashlib
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import packages_distributions, version
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle

from oncelake.common.errors import ConfigError
from oncelake.common.models import Strict
from oncelake.common.wording import shown

KEY = "silver.transform"
_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")
# The attribute of an imported module with the hash of its source at that time.
_SOURCE = "__oncelake_source__"


def checked_name(name: str) -> str:
    """Return the name of a function, or raise ValueError if it has another form than `package.module:function`."""
    if not _NAME.fullmatch(name):
        raise ValueError("must be package.module:function, such as fleet.columns:enrich")
    return name


class CodeIdentity(Strict):
    """What identifies a function of the user's own code; a part of the rules that silver's commits record.

    Attributes:
        transform: the function, `package.module:function`.
        distribution: the installed distribution that the module belongs to, and its version; None if it is a file.
        source: a short hash of the module's source, or of every `.py` file of its package.
    """

    transform: str
    distribution: str | None = None
    source: str


@dataclass(frozen=True)
class UserCode:
    """A function of the user's own code that was found and is not imported yet.

    Attributes:
        identity: what identifies it.
        place: the file of its module.
        directory: the directory that is put on `sys.path` to import it; None if Python finds the module without it.
    """

    identity: CodeIdentity
    place: str
    directory: str | None = None

    @property
    def name(self) -> str:
        """The function, `package.module:function`."""
        return self.identity.transform

    def function(self) -> Callable[[Any], Any]:
        """Import the module, again if its source has changed in this process, and return the function.

        Raises:
            ConfigError: the module cannot be imported, or it has no such function.
        """
        module, _, name = self.name.partition(":")
        try:
            target: Any = getattr(self._module(module), name, None)
        except ConfigError:
            raise
        except (Exception, SystemExit) as error:
            message = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise ConfigError(f"{KEY} {self.name}: {self.place} cannot be imported: {message}") from error
        if target is None:
            raise ConfigError(f"{KEY} {self.name}: {self.place} has no {name}; name a function of this file")
        if not callable(target):
            raise ConfigError(f"{KEY} {self.name}: {name} in {self.place} is {shown(target)}, not a function")
        return partial(self._called, target)

    @contextmanager
    def imported_again(self) -> Iterator[None]:
        """Import the module, its package and the files beside it a second time for the block, then undo this."""
        before = self._imported()
        for name in before:
            del sys.modules[name]
        try:
            yield
        finally:
            for name in self._imported():
                del sys.modules[name]
            sys.modules.update(before)

    def _imported(self) -> dict[str, ModuleType]:
        top = self.name.partition(":")[0].partition(".")[0]

        def is_own(name: str, module: ModuleType) -> bool:
            file = getattr(module, "__file__", None)
            return name.partition(".")[0] == top or (file is not None and str(Path(file).parent) == self.directory)

        return {name: module for name, module in [*sys.modules.items()] if name != "__main__" and is_own(name, module)}

    def _module(self, name: str) -> Any:
        top = name.partition(".")[0]
        if getattr(sys.modules.get(top), _SOURCE, None) != self._source:
            for submodule in [module for module in sys.modules if module == top or module.startswith(f"{top}.")]:
                del sys.modules[submodule]  # guard: changed-code-imported-again
            importlib.invalidate_caches()
        with _on_path(self.directory):
            imported = importlib.import_module(name)
        if find_code(self.name, [Path(self.directory)] if self.directory is not None else ()).identity != self.identity:
            # guard: imported-code-has-recorded-hash
            raise ConfigError(f"{KEY} {self.name}: {self.place} has changed since this start; start again")
        setattr(sys.modules[top], _SOURCE, self._source)
        if self.identity.distribution is None:  # Spark's Python workers may not find the file
            cloudpickle.register_pickle_by_value(sys.modules[top])  # type: ignore[no-untyped-call]
        return imported

    def _called(self, function: Callable[[Any], Any], rows: Any) -> Any:
        with _on_path(self.directory):  # for imports in the function
            return function(rows)

    @property
    def _source(self) -> tuple[str, str]:
        return self.place, self.identity.source


@contextmanager
def _on_path(directory: str | None) -> Iterator[None]:
    """Put a directory first on `sys.path` during the block; another lake in this process has its own directory."""
    if directory is None:
        yield
        return
    sys.path.insert(0, directory)
    try:
        yield
    finally:
        sys.path.remove(directory)


def find_code(name: str, places: Sequence[Path] = ()) -> UserCode:
    """Find the module of `package.module:function` in some directories, or else in PYTHONPATH, or installed.

    Raises:
        ConfigError: there is no such module, or it has no Python source.
    """
    module = name.partition(":")[0]
    importlib.invalidate_caches()
    directories = [*map(str, map(Path.absolute, places))]
    spec, inside = _within(module, directories), True
    if spec is None or spec.origin is None:  # a directory of this name is no reason to hide an installed package
        spec, inside = _within(module, None), False
    if spec is None:
        looked = ", ".join((*dict.fromkeys(directories), "PYTHONPATH and the installed packages"))
        raise ConfigError(f"{KEY} {name}: there is no module {module} in {looked}; correct its name, or put it there")
    if spec.origin is None or not spec.origin.endswith(".py") or not Path(spec.origin).is_file():
        raise ConfigError(
            f"{KEY} {name}: the module {module} has no Python source file, so a change of it could not be detected; "
            "name a function of a .py file"
        )
    origin = Path(spec.origin)
    root = _package_of(origin, module)
    distributions = [] if inside else packages_distributions().get(module.partition(".")[0], [])
    known = ", ".join(f"{name} {version(name)}" for name in dict.fromkeys(distributions)) or None
    identity = CodeIdentity(transform=name, distribution=known, source=_hash(origin, root))
    return UserCode(identity, str(origin), str((root or origin).parent) if inside else None)


def _within(module: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """Find a module without importing a package of it; with None for the path, as Python finds modules."""
    top, *inner_names = module.split(".")
    if path is None:
        specs = (finder.find_spec(top, None) for finder in sys.meta_path)
        spec = next(filter(None, specs), None)
    else:
        spec = PathFinder.find_spec(top, path)
    for number in range(len(inner_names)):
        inner = spec.submodule_search_locations if spec is not None else None
        name = ".".join((top, *inner_names[: number + 1]))
        spec = PathFinder.find_spec(name, [*inner]) if inner is not None else None
    return spec


def _package_of(origin: Path, module: str) -> Path | None:
    """Return the directory of the package that a module's file is in; None if the file is a module of its own."""
    depth = module.count(".") + (origin.name == "__init__.py")
    return origin.parents[depth - 1] if depth else None


def _hash(origin: Path, package: Path | None) -> str:
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")) if package is not None else [origin]:
        name = str(path.relative_to(package)) if package is not None else ""
        content = path.read_bytes()
        digest.update(f"{name}\n{len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]
