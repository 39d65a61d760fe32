"""This is where Prometheus fetches a run's figures, over HTTP, for as long as the run lasts."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from oncelake.common.errors import ConfigError
from oncelake.common.version import __version__
from oncelake.engine.settings import MetricsSettings

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider


def check_port(settings: MetricsSettings) -> None:
    """Check, before Spark is started for nothing, that nothing else listens where metrics are to be served.

    Raises:
        ConfigError: nothing can listen there; says why.
    """
    if settings.port is None:
        return
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with _listening(settings):
        socket.create_server((settings.host, settings.port), family=family).close()


@contextmanager
def endpoint(settings: MetricsSettings) -> "Iterator[MeterProvider]":
    """Serve what a meter provider of its own gathers at `/metrics`, until the run ends.

    Raises:
        ConfigError: nothing can listen there; says why.
    """
    # the SDK takes a tenth of a second to load
    from opentelemetry.exporter.prometheus import PrometheusMetricReader  # noqa: PLC0415
    from opentelemetry.sdk import metrics, resources  # noqa: PLC0415
    from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415

    registry = CollectorRegistry()  # prometheus_client's own is one for the process, and would outlive the run
    reader = PrometheusMetricReader(scope_info_enabled=False, registry=registry)
    named = {resources.SERVICE_NAME: "oncelake", resources.SERVICE_VERSION: __version__}
    provider = metrics.MeterProvider([reader], resources.Resource.create(named), shutdown_on_exit=False)
    assert settings.port is not None
    with _listening(settings):
        server, thread = start_http_server(settings.port, settings.host, registry)
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        provider.shutdown()


@contextmanager
def _listening(settings: MetricsSettings) -> Iterator[None]:
    """Say what keeps this process from listening there."""
    try:
        yield
    except OSError as error:
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else str(error.strerror or error)  # of a name, the number is another's
        raise ConfigError(
            f"metrics.port {settings.port}: nothing can listen at {settings.host}: {why}; "
            "name another port or metrics.host, or end what listens there"
        ) from None
