"""This is where it is found out whether a run can listen at a port, before Spark is started for nothing."""

import os
import socket

from oncelake.common.errors import ConfigError
from oncelake.engine.settings import MetricsSettings


def check_port(settings: MetricsSettings) -> None:
    """Check that nothing else listens there, where metrics are to be served at all.

    Raises:
        ConfigError: nothing can listen there; says why.
    """
    if settings.port is None:
        return
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        socket.create_server((settings.host, settings.port), family=family).close()
    except OSError as error:
        raise taken(settings, error) from None


def taken(settings: MetricsSettings, error: OSError) -> ConfigError:
    """Say that nothing can listen there."""
    number = error.errno or 0
    why = os.strerror(number) if number > 0 else str(error.strerror or error)  # of a name, the number is another's
    return ConfigError(
        f"metrics.port {settings.port}: nothing can listen at {settings.host}: {why}; "
        "name another port or metrics.host, or end what listens there"
    )
