"""The JVM gets every setting unchanged, and no other user of the machine can read one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from oncelake.common.spark.launch import launch

pytestmark = pytest.mark.spark

CANARY = "canary-77d0"
CONF = {
    "spark.hadoop.fs.s3a.secret.key": f"{CANARY}/+=",
    "spark.hadoop.odd key:=#!\\": "a\\u0041 =:#! 'single' \"double\" ä😀\u2028 \\",
    "spark.hadoop.lines": "one\r\ntwo\tthree",
    "spark.driver.memory": "256m",
}
OPTIONS = [f"-Dpassword={CANARY}", "-Dodd=a \"b\\c\" 'd' # ä😀", "-Dlast=\\"]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Any]:
    """Start a JVM in a locale that is not UTF-8."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LC_ALL", "C")
        started: Any = launch(CONF, OPTIONS)
    yield started
    started.shutdown()
    started.proc.stdin.close()
    started.proc.wait()


def test_every_setting_and_option_arrives_unchanged(gateway: Any) -> None:
    known = gateway.jvm.java.lang.System.getProperty
    assert {key: known(key) for key in CONF} == CONF
    assert [f"-D{key}={known(key)}" for key in ("password", "odd", "last")] == OPTIONS
    assert gateway.jvm.java.lang.Runtime.getRuntime().maxMemory() <= 256 * 1024**2


def test_no_setting_is_on_the_command_line(gateway: Any) -> None:
    line = psutil.Process(gateway.proc.pid).cmdline()
    assert "org.apache.spark.deploy.SparkSubmit" in line
    assert not any(CANARY in part for part in line)


def test_the_jvm_reads_file_names_as_utf_8(gateway: Any, tmp_path: Path) -> None:
    (tmp_path / "größe-日本.log").touch()
    assert gateway.jvm.java.lang.System.getProperty("sun.jnu.encoding") == "UTF-8"
    assert list(gateway.jvm.java.io.File(str(tmp_path)).list()) == ["größe-日本.log"]
