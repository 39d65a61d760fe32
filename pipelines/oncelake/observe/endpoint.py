"""The HTTP endpoint that serves a run's metrics to Prometheus while the run lasts."""

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
    """Check, before Spark starts, that the metrics port is free.

    Raises:
        ConfigError: the process cannot listen there; the message has the cause.
    """
    if settings.port is None:
        return
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with _listening(settings):
        socket.create_server((settings.host, settings.port), family=family).close()


@contextmanager
def endpoint(settings: MetricsSettings) -> "Iterator[MeterProvider]":
    """Serve `/metrics` until the run ends, and yield the meter provider that fills it.

    Raises:
        ConfigError: the process cannot listen there; the message has the cause.
    """
    # imported here, as the SDK takes a tenth of a second to load
    from opentelemetry.exporter.prometheus import PrometheusMetricReader  # noqa: PLC0415
    from opentelemetry.sdk import metrics, resources  # noqa: PLC0415
    from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415

    registry = CollectorRegistry()  # prometheus_client's default registry is per process and would outlive the run
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
    """Turn an OSError into a ConfigError that says why the process cannot listen."""
    try:
        yield
    except OSError as error:
        number = error.errno or 0
        # a failed name lookup has a negative number, which is no errno
        why = os.strerror(number) if number > 0 else str(error.strerror or error)
        raise ConfigError(
            f"metrics.port {settings.port}: cannot listen at {settings.host}: {why}; "
            "set another metrics.port or metrics.host, or stop the process that listens there"
        ) from None
