"""This is where Prometheus fetches a run's figures, over HTTP, for as long as the run lasts."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from wsgiref.simple_server import WSGIServer

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from prometheus_client import CollectorRegistry, start_http_server

from oncelake.common.version import __version__
from oncelake.engine.settings import MetricsSettings
from oncelake.observe.port import taken


@contextmanager
def endpoint(settings: MetricsSettings) -> Iterator[MeterProvider]:
    """Serve what a meter provider of its own gathers at `/metrics`, until the run ends.

    Raises:
        ConfigError: nothing can listen there; says why.
    """
    registry = CollectorRegistry()  # prometheus_client's own is one for the process, and would outlive the run
    reader = PrometheusMetricReader(scope_info_enabled=False, registry=registry)
    resource = Resource.create({SERVICE_NAME: "oncelake", SERVICE_VERSION: __version__})
    provider = MeterProvider([reader], resource, shutdown_on_exit=False)
    server, thread = _listen(settings, registry)
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        provider.shutdown()


def _listen(settings: MetricsSettings, registry: CollectorRegistry) -> tuple[WSGIServer, Thread]:
    assert settings.port is not None
    try:
        return start_http_server(settings.port, settings.host, registry)
    except OSError as error:
        raise taken(settings, error) from None
