"""An error of Spark or py4j becomes one line that says what happened."""

import logging
import socket
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError, Py4JNetworkError

from oncelake.common import explain as explaining
from oncelake.common.errors import REFUSED
from oncelake.common.explain import explain, jvm_ended
from oncelake.common.spark import launch
from oncelake.common.spark.launch import java_output_to
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


def test_a_call_interrupted_by_the_end_of_the_jvm_is_recognized(
    broken_off: Py4JError, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not isinstance(broken_off, Py4JNetworkError), "py4j has another error for this now"
    monkeypatch.setattr(launch, "started", [])
    assert explain(broken_off).startswith("Spark's JVM ended (killed, or out of memory); nothing is lost or repeated")


def test_an_error_that_python_answered_to_java_is_shown_as_it_is() -> None:
    cause = f"java.lang.IllegalStateException: {REFUSED}/logs/a.log is read by another source; name it once"
    error = Py4JError(f"{cause} SQLSTATE: XXKST\n\tat oncelake.ReadableFiles.accept Trace:\n{cause}")
    error.java_exception = SimpleNamespace(toString=lambda: cause, getCause=lambda: None)
    assert explain(error) == "/logs/a.log is read by another source; name it once"


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
        ("[SCHEMA_NOT_FOUND] the column theirs does not exist", "starting again does not help"),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", "ulimit -u 4096"),
        ("UnsatisfiedLinkError: /tmp/snappy.so: failed to map segment from shared object", "set TMPDIR"),
        ("java.io.IOException: File too large", "ulimit -f unlimited"),
        ("java.net.UnknownHostException: web-7", "set SPARK_LOCAL_HOSTNAME=localhost"),
        (
            "UnknownHostException: on s3://a/b: software.amazon.awssdk.core.exception.SdkClientException: Unable to "
            "execute HTTP request: store.example",
            "S3 cannot be reached; check AWS_ENDPOINT_URL",
        ),
        ("org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: none", "no credentials for S3 were found: set AWS_"),
        ("java.io.IOException: Too many open files", "ulimit -n 4096"),
        ("OutOfMemoryError: unable to create native thread", "ulimit -u 4096"),
        ("[INVALID_DRIVER_MEMORY] System memory 1 must be at least 471859200", "set spark.driver_memory to 512m"),
    ],
)
def test_no_replay_is_promised_to_cure_what_lasts(lasting: str, advice: str) -> None:
    said = explain(RuntimeError(lasting))
    assert advice in said
    assert "the batch is replayed" not in said


MEMORY = "give Spark more memory (spark.driver_memory)"
ENDS = [
    ("kill -9 $$", "killed by SIGKILL", "lower spark.driver_memory, then start again"),
    ("echo '2026-01-01 ERROR: java.lang.OutOfMemoryError: Java heap space'; exit 3", "exit code 3; it said: ", MEMORY),
    ("echo 'java.lang.OutOfMemoryError: GC overhead limit exceeded'; kill -9 $$", "GC overhead", MEMORY),
    ("echo 'OutOfMemoryError: unable to create native thread'; exit 1", "exit code 1", "ulimit -u 4096"),
    (
        "echo Failed to create a local directory; exit 53",
        "exit code 53; it said: Failed",
        "nothing is lost or repeated. If",
    ),
    (
        "echo '# Native memory allocation (malloc) failed to allocate 16 bytes.'; exit 1",
        "exit code 1; it said: Native memory allocation (malloc) failed",
        "(ulimit -v unlimited), then start again",
    ),
    ("kill -15 $$", "killed by SIGTERM", "nothing is lost or repeated. If it comes again"),
]


@pytest.mark.parametrize(("script", "how", "advice"), ENDS, ids=[how for _, how, _ in ENDS])
def test_the_end_of_the_jvm_is_told_with_what_is_known_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, how: str, advice: str
) -> None:
    with java_output_to(tmp_path / "spark.log"):
        process = subprocess.Popen(["sh", "-c", script])
    monkeypatch.setattr(launch, "started", [process])
    said = explain(Py4JNetworkError("Answer from Java side is empty"))
    assert said.startswith("Spark's JVM ended (")
    assert how in said
    assert advice in said


WARNED = "2026-01-01 10:00:00 WARN TaskSetManager: lost a task"
NO_MEMORY = "OpenJDK 64-Bit Server VM warning: os::commit_memory failed; error='Cannot allocate memory' (errno=12)"
FAILED = "2026-01-01 10:00:00 ERROR Executor: FileNotFoundException: File /x does not exist"


@pytest.mark.parametrize(
    ("lines", "end", "how"),
    [
        ([WARNED, "java.io.IOException: theirs", "\tat a.b.C"], "kill -9 $$", "killed by SIGKILL"),
        ([FAILED, "Picked up no option"], "kill -9 $$", "killed by SIGKILL"),
        ([FAILED], "kill -15 $$", "killed by SIGTERM"),
        (["Setting default log level to WARN"], "kill -9 $$", "killed by SIGKILL"),
        ([WARNED, "java.io.IOException: theirs", "\tat a.b.C"], "exit 7", "exit code 7"),
        (
            ["2026-01-01 10:00:00 FATAL Main: the end", WARNED, "java.io.IOException: theirs"],
            "exit 7",
            "exit code 7; it said: 2026-01-01 10:00:00 FATAL Main: the end",
        ),
        (
            [WARNED, "java.lang.OutOfMemoryError: Java heap space", WARNED],
            "kill -9 $$",
            "killed by SIGKILL; it said: java.lang.OutOfMemoryError: Java heap space",
        ),
        (
            [
                WARNED,
                "OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory failed; error='Cannot allocate memory'",
            ],
            "kill -9 $$",
            "killed by SIGKILL; it said: OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory failed; "
            "error='Cannot allocate memory'",
        ),
        (
            [WARNED, "Error: the module is broken", "26/01/01 10:00:00 INFO Utils: Exception: of no matter"],
            "exit 7",
            "exit code 7; it said: Error: the module is broken",
        ),
        (
            [WARNED, "#  SIGSEGV (0xb) at pc=0x0, pid=1", "# Problematic frame:", "#"],
            "kill -6 $$",
            "killed by SIGABRT; it said: SIGSEGV (0xb) at pc=0x0, pid=1",
        ),
    ],
)
def test_only_what_may_have_ended_the_jvm_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], end: str, how: str
) -> None:
    log, script = tmp_path / "spark.log", f"cat {tmp_path}/said; {end}"
    (tmp_path / "said").write_text("".join(f"{line}\n" for line in lines))
    log.write_text("Error: of an earlier start\nOutOfMemoryError: also\n")
    with java_output_to(log):
        process = subprocess.Popen(["sh", "-c", script])
    monkeypatch.setattr(launch, "started", [process])
    assert explain(Py4JNetworkError("Answer from Java side is empty")).startswith(f"Spark's JVM ended ({how});")


def test_the_end_of_a_long_record_is_not_quoted_as_java_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "said").write_text(f"{WARNED}\n" + "java.io.IOException: theirs\n" * 5_000)
    with java_output_to(tmp_path / "spark.log"):
        process = subprocess.Popen(["sh", "-c", f"cat {tmp_path}/said; exit 7"])
    monkeypatch.setattr(launch, "started", [process])
    assert explain(Py4JNetworkError("Answer from Java side is empty")).startswith("Spark's JVM ended (exit code 7);")


def test_a_connection_that_another_server_breaks_is_not_the_end_of_the_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as lives:
        monkeypatch.setattr(launch, "started", [lives])
        monkeypatch.setattr(launch, "SECONDS_TO_SAY", 0.1)
        said = explain(ConnectionResetError(104, "Connection reset by peer"))
        lives.kill()
    assert "JVM" not in said


class StuckError(RuntimeError):
    """An error whose text is kept by a JVM that does not answer, as `Py4JJavaError`'s is."""

    def __str__(self) -> str:
        threading.Event().wait(5)
        return ""


class GoneError(RuntimeError):
    """An error whose text is kept by a JVM that has ended."""

    def __str__(self) -> str:
        raise Py4JNetworkError("An error occurred while trying to connect to the Java server (127.0.0.1:1)")


@pytest.mark.parametrize("error", [StuckError(), GoneError()], ids=["stuck", "gone"])
def test_an_error_is_explained_although_java_does_not_give_its_text(
    monkeypatch: pytest.MonkeyPatch, error: RuntimeError
) -> None:
    monkeypatch.setattr(explaining, "SECONDS_TO_ANSWER", 0.1)
    monkeypatch.setattr(launch, "started", [])
    assert explain(error).startswith("Spark's JVM ended (")
