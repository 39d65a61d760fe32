"""Load the class of a sink by its name, and say in one line why it cannot be used."""

from collections.abc import Mapping
from importlib import import_module

from oncelake.common.errors import ConfigError, OncelakeError, reason
from oncelake.serving.served import without_secrets
from oncelake.serving.settings import is_class_name
from oncelake.serving.sink import Safety, Sink

_HELP = "See docs/sinks.md"


def make_sink(name: str, table: str, options: Mapping[str, str]) -> Sink:
    """Make the sink of a served table.

    Args:
        name: the class, as `module:Class`.
        table: the gold table's name.
        options: what the class is given.

    Raises:
        ConfigError: the module cannot be imported, has no such class, or the class is no sink or refuses its options.
    """
    kind = sink_class(name)
    try:
        return kind(table, dict(options))
    except OncelakeError:
        raise
    except KeyError as error:
        raise ConfigError(f"serving.sink {name} needs serving.options.{error.args[0]}, which is not set") from None
    except Exception as error:
        message = without_secrets(f"{type(error).__name__}: {reason(error)}", options)
        raise ConfigError(f"serving.sink {name} cannot be made from serving.options: {message}") from None


def sink_class(name: str) -> type[Sink]:
    """Return the class of a sink.

    Raises:
        ConfigError: the module cannot be imported, has no such class, or the class is no sink.
    """
    if not is_class_name(name):
        raise ConfigError(f"a sink is named module:Class, such as mypackage.sinks:Redis, not {name!r}")
    module_name, _, path = name.partition(":")
    try:
        target: object = import_module(module_name)
    except ModuleNotFoundError as error:
        inside = f"{module_name}.".startswith(f"{error.name}.")
        missing = "" if inside else f" (it needs {error.name}, which is not installed)"
        raise ConfigError(
            f"serving.sink {name}: there is no module {module_name}{missing}; install its package into this Python, or "
            "add its directory to PYTHONPATH"
        ) from None
    except Exception as error:
        raise ConfigError(
            f"serving.sink {name}: {module_name} cannot be imported: {type(error).__name__}: {reason(error)}"
        ) from None
    for part in path.split("."):
        target = getattr(target, part, None)
    if target is None:
        raise ConfigError(f"serving.sink {name}: {module_name} has no class {path}")
    if not isinstance(target, type) or not issubclass(target, Sink):
        raise ConfigError(f"serving.sink {name}: {path} is not a class derived from oncelake.Sink. {_HELP}")
    missing_methods = sorted(target.__abstractmethods__)
    if missing_methods:
        raise ConfigError(f"serving.sink {name}: {path} lacks {', '.join(missing_methods)}. {_HELP}")
    if not isinstance(getattr(target, "safety", None), Safety):
        raise ConfigError(
            f"serving.sink {name}: {path} does not say how it is made safe; set its attribute `safety` to "
            f"{' or '.join(f'Safety.{member.name}' for member in Safety)}. {_HELP}"
        )
    return target
