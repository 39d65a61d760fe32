"""A JVM gets its settings in a private directory, which is removed however the start ends."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.spark import class_data, compiled, session
from oncelake.common.spark.launch import java_output_to, launch
from oncelake.common.spark.locales import utf8_locale
from oncelake.common.spark.session import spark_log
from oncelake.common.spark.settings import SparkSettings
from tests.support.places import ROOT

CANARY = "canary-5c2f"
CONF = {"spark.hadoop.fs.s3a.secret.key": CANARY, "spark.app.name": "test", "my.own": CANARY}
OPTIONS = [f"-Dpassword={CANARY}", "@/home/me/options"]
START = "import oncelake.common.spark.launch as l; l.launch({'spark.hadoop.fs.s3a.secret.key': 'canary-5c2f'})"


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a fake `spark-submit`, to which a test adds a script, and set a directory for temporary files."""
    program = tmp_path / "home/bin/spark-submit"
    program.parent.mkdir(parents=True)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > "{tmp_path}/arguments"\necho "$LC_ALL" > "{tmp_path}/locale"\n'
        f'cp -rp "$(dirname "$2")" "{tmp_path}/copy"\nmv "{tmp_path}/copy" "{tmp_path}/seen"\n'
    )
    program.chmod(0o755)
    return program


def does(spark_submit: Path, what: str) -> None:
    spark_submit.write_text(f"{spark_submit.read_text()}{what}\n")


def fail(conf: dict[str, str], options: list[str]) -> None:
    with pytest.raises(OncelakeError, match="Spark's JVM did not start: exit code 1"):
        launch(conf, options)


def test_no_setting_and_no_java_option_is_on_the_command_line(spark_submit: Path, tmp_path: Path) -> None:
    does(spark_submit, "exit 1")
    fail(CONF, OPTIONS)
    option, place, *rest = (tmp_path / "arguments").read_text().splitlines()
    assert option == "--properties-file"
    assert rest == ["--load-spark-defaults", "pyspark-shell"]
    seen = tmp_path / "seen"
    settings = (seen / "settings").read_text().splitlines()
    assert f"spark.hadoop.fs.s3a.secret.key={CANARY}" in settings
    assert not any(line.startswith("my.own") for line in settings)
    java_options = Path(place).with_name("java-options")
    assert f"spark.driver.extraJavaOptions=@{java_options}\\u0020@/home/me/options" in settings
    temporary = f'"-Djava.io.tmpdir={tmp_path}/tmp"'
    assert (seen / "java-options").read_text() == f'{temporary}\n"-Dpassword={CANARY}"\n'
    assert {path.name: path.stat().st_mode & 0o777 for path in (seen, *seen.iterdir())} == {
        "seen": 0o700,
        "settings": 0o600,
        "java-options": 0o600,
    }


def test_a_jvm_that_ends_without_an_error_is_not_waited_for(
    spark_submit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelake.common.spark.launch.PATIENCE", 5)
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "--version")
    does(spark_submit, "echo openjdk 17; exit 0")
    with pytest.raises(OncelakeError) as raised, java_output_to(tmp_path / "log"):
        launch(CONF, [])
    said = str(raised.value)
    assert said.startswith("Spark's JVM did not start: exit code 0; it said: openjdk 17. Correct what it reads at its ")
    assert "JDK_JAVA_OPTIONS" in said


def test_a_jvm_that_neither_starts_nor_ends_is_killed(
    spark_submit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelake.common.spark.launch.PATIENCE", 0.5)
    does(spark_submit, "echo resolving; exec sleep 60")
    with (
        pytest.raises(OncelakeError, match="did not start within 0 s, and was killed; it said: resolving"),
        java_output_to(tmp_path / "log"),
    ):
        launch(CONF, [])


def test_the_files_are_removed_if_the_jvm_does_not_start(spark_submit: Path, tmp_path: Path) -> None:
    does(spark_submit, "exit 1")
    before = dict(os.environ)
    fail(CONF, OPTIONS)
    assert not list((tmp_path / "tmp").iterdir())
    assert dict(os.environ) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_files_are_removed_if_the_start_is_killed(
    spark_submit: Path, tmp_path: Path, number: signal.Signals
) -> None:
    does(spark_submit, "exec sleep 20")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "pipelines")}
    program = [sys.executable, "-c", START]
    with subprocess.Popen(program, env=environment, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        wait((tmp_path / "seen").exists)
        assert CANARY in (tmp_path / "seen/settings").read_text()
        process.send_signal(number)
        process.wait()
        wait(lambda: not list((tmp_path / "tmp").glob("oncelake-start-*")))
        os.killpg(process.pid, signal.SIGKILL)  # the sleeping process


def wait(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_file_of_settings_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--properties-file=/etc/my.conf pyspark-shell")
    with pytest.raises(ConfigError, match=r"PYSPARK_SUBMIT_ARGS has --properties-file.*under spark\.conf"):
        launch({})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (f'-Da="{CANARY}', r"spark\.driver\.extraJavaOptions cannot be split into options: no closing quotation"),
        (f"-Da={CANARY} -Xmx8g", r"-Xmx8g: the heap is set by spark\.driver_memory"),
    ],
)
def test_java_options_that_cannot_be_passed_on_are_refused(
    monkeypatch: pytest.MonkeyPatch, options: str, said: str
) -> None:
    monkeypatch.setattr(session, "java_command", lambda: "java")
    monkeypatch.setattr(class_data, "options", lambda **_: [])
    monkeypatch.setattr(compiled, "class_path", str)
    with pytest.raises(ConfigError, match=said) as raised:
        session.build(SparkSettings(conf={"spark.driver.extraJavaOptions": options}))
    assert CANARY not in str(raised.value)


VARIABLES = ("LC_ALL", "LC_CTYPE", "LC_TIME", "LANG")


@pytest.mark.skipif(sys.platform != "linux", reason="Java's names of files are UTF-8 on other systems")
@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ("LC_ALL=C", {"LC_ALL": "C.UTF-8"}),
        ("LC_ALL=POSIX LANG=C.UTF-8", {"LC_ALL": "C.UTF-8"}),
        ("", {"LC_ALL": "C.UTF-8"}),
        ("LC_CTYPE=C LANG=C.UTF-8", {"LC_ALL": "C.UTF-8"}),
        ("LANG=xx_YY.UTF-8", {"LC_ALL": "C.UTF-8"}),
        ("LC_TIME=xx_YY.UTF-8 LANG=C.UTF-8", {"LC_ALL": "C.UTF-8"}),
        ("LANG=C.UTF-8", {}),
        ("LC_ALL=C.UTF-8 LANG=C", {}),
    ],
)
def test_a_locale_that_is_not_utf_8_or_not_installed_is_replaced(
    monkeypatch: pytest.MonkeyPatch, environment: str, expected: dict[str, str]
) -> None:
    for name in [*VARIABLES, *(name for name in os.environ if name.startswith("LC_"))]:
        monkeypatch.delenv(name, raising=False)
    for each in shlex.split(environment):
        monkeypatch.setenv(*each.split("=", 1))
    assert utf8_locale() == expected


def test_the_locale_is_set_only_for_the_jvm(
    spark_submit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    does(spark_submit, "exit 1")
    fail(CONF, [])
    assert (tmp_path / "locale").read_text() == "C.UTF-8\n"
    assert os.environ["LC_ALL"] == "C"


def test_the_log_of_spark_is_not_written_through_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "spark.log"
    target.write_text("mine")
    link.symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"), java_output_to(link):
        os.write(2, b"theirs")
    assert target.read_text() == "mine"


def test_the_log_of_spark_is_in_a_directory_that_only_this_user_may_write_to() -> None:
    assert spark_log().parent.stat().st_mode & 0o777 == 0o700
    assert spark_log().parent.stat().st_uid == os.geteuid()
    assert spark_log() == spark_log()
