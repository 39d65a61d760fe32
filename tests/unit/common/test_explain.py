"""An error of Spark or py4j becomes one line that says what happened."""

import logging
import socket
import threading

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError, Py4JNetworkError

from oncelake.common.explain import explain, jvm_ended
from oncelake.common.spark.session import quiet_libraries


@pytest.fixture
def broken_off() -> Py4JError:
    """Return the error of a call that was active when the other side was killed: its socket is reset, not closed."""
    server = socket.create_server(("127.0.0.1", 0))

    def die() -> None:
        connection, _ = server.accept()
        connection.recv(1, socket.MSG_PEEK)  # the call has arrived and is not read
        server.close()
        connection.close()

    threading.Thread(target=die).start()
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=server.getsockname()[1]))
    with pytest.raises(Py4JError) as raised:
        gateway.entry_point.getClass()
    return raised.value


def test_a_call_interrupted_by_the_end_of_the_jvm_is_recognized(broken_off: Py4JError) -> None:
    assert not isinstance(broken_off, Py4JNetworkError), "py4j has another error for this now"
    assert explain(broken_off).startswith("Spark's JVM ended (killed, or out of memory); start again")


def test_an_error_from_java_is_not_the_end_of_the_jvm() -> None:
    assert not jvm_ended(Py4JError("An error occurred while calling o1.x. Trace:\npy4j.Py4JException: no such method"))


def test_py4j_prints_no_traceback_of_its_own(caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest) -> None:
    filters = [*logging.getLogger().filters]
    try:
        quiet_libraries()
        request.getfixturevalue("broken_off")
        assert "Exception while sending command" not in caplog.text
    finally:
        logging.getLogger().filters[:] = filters


def test_libraries_are_silenced_only_once() -> None:
    filters = [*logging.getLogger().filters]
    try:
        quiet_libraries()
        once = [*logging.getLogger().filters]
        quiet_libraries()
        assert logging.getLogger().filters == once
    finally:
        logging.getLogger().filters[:] = filters


def test_a_timestamp_that_spark_cannot_read_is_explained() -> None:
    said = explain(RuntimeError("java.lang.ArithmeticException: long overflow"))
    assert "a Kafka record has a timestamp that is too large for Spark's own source" in said


@pytest.mark.parametrize(
    "passing", ["java.net.SocketTimeoutException: Read timed out", "Connection reset by peer", "Input/output error"]
)
def test_starting_again_is_the_advice_for_a_cause_that_passes(passing: str) -> None:
    assert explain(RuntimeError(passing)).endswith(
        "; start again: the batch is replayed and nothing is lost or repeated"
    )


@pytest.mark.parametrize(
    ("lasting", "advice"),
    [
        ("ParentNotDirectoryException: /data/lake (is not a directory)", "starting again does not help"),
        ("[DELTA_MISSING_COLUMN] Cannot find value", "starting again does not help"),
        ("java.net.UnknownHostException: web-7", "set SPARK_LOCAL_HOSTNAME=localhost"),
        ("java.io.IOException: Too many open files", "ulimit -n 4096"),
        ("OutOfMemoryError: unable to create native thread", "ulimit -u 4096"),
    ],
)
def test_no_replay_is_promised_to_cure_what_lasts(lasting: str, advice: str) -> None:
    said = explain(RuntimeError(lasting))
    assert advice in said
    assert "the batch is replayed" not in said
