"""Every command of the README and of the page that continues it runs on the Spark that tests share, as they show."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.common.spark.jvm import jvm
from oncelake.lab.demo.made_log import lines_of, write_log
from tests.support.readme import FIRST, OWN, Shell, block, must_print, value_of

pytestmark = pytest.mark.spark

LINE = "app-0.log:2017-07-30 14:09:08 ERROR some message"
# commands that take long or need more than a lake: how to run them here, None if another test runs them
CUT = {
    "oncelake install-service --user --dry-run": None,  # this directory has no configuration of its own
    "oncelake run": ["--once"],
    "oncelake status --watch": None,  # tests/streaming/test_watch.py
    "oncelake open": None,  # tests/streaming/test_report.py
    "oncelake report": ["-o", "{root}/report.html"],
    "oncelake serving init": ["--set", "serving.url=sqlite:///{root}/served.db"],
    "oncelake crash-test": None,  # tests/streaming/test_crash_test.py
    "oncelake demo": None,  # tests/streaming/test_demo.py
    "oncelake init my-lake": None,  # tests/unit/lab/project/test_write.py
    "oncelake sink test mypackage:Sink": None,  # tests/unit/lab/sink_test/test_check.py
}


@pytest.fixture(scope="module")
def filled_by_page(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[str]]]:
    """Make a lake of the demo's files with the page's commands for own logs; yield it with their outputs."""
    del spark  # the commands get it
    root = tmp_path_factory.mktemp("readme")
    write_log(root / "logs", 20_000)
    with pytest.MonkeyPatch.context() as patch:
        shell = _shell(patch, root)
        said = [shell.run(command) for command, _ in block(OWN, "console").steps()]
        shutil.copytree(root / "lake", root / "copy")
        yield root, said


@pytest.fixture
def shell(filled_by_page: tuple[Path, list[str]], spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Restore that lake, and return a shell with the page's settings."""
    root, _ = filled_by_page
    shutil.rmtree(root / "lake")
    shutil.copytree(root / "copy", root / "lake")
    jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
    return _shell(monkeypatch, root)


def _shell(patch: pytest.MonkeyPatch, root: Path) -> Shell:
    patch.chdir(root)  # there is no configuration file
    patch.setenv("COLUMNS", "120")
    line = next(line for line in lines_of(root / "logs") if b" ERROR " in line)
    name = next(path.name for path in (root / "logs").iterdir() if line in path.read_bytes())
    places = {
        LINE: f"{name}:{line.decode()}".replace("'", "'\\''"),
        "/var/log/myapp": str(root / "logs"),
        "/tmp/lake": str(root / "lake"),
    }
    return Shell(patch, places)


def test_the_first_result_is_that_of_the_readme(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark.getActiveSession() is not None  # the commands get it
    write_log(tmp_path / "logs", 20_000)
    places = {"/var/log/myapp": str(tmp_path / "logs"), "/tmp/my-lake": str(tmp_path / "my-lake")}
    monkeypatch.chdir(tmp_path)
    Shell(monkeypatch, places).must_show(block(FIRST, "console"))
    assert len(block(FIRST, "console").text.split("$ ")) - 1 == 5
    assert len(value_of(block(FIRST, "python").text.replace("/tmp/my-lake", str(tmp_path / "my-lake")))) == 119


def test_own_logs_are_counted_as_on_the_page(filled_by_page: tuple[Path, list[str]]) -> None:
    root, said = filled_by_page
    for (_, shown), printed in zip(block(OWN, "console").steps(), said, strict=True):
        must_print(shown, printed)
    for table in ("bronze/access_log", "silver/access_log", "silver/quarantine", "gold/error_log", "gold/log_volume"):
        assert (root / "lake" / table / "_delta_log").is_dir()
    assert len(value_of(block(OWN, "python").text.replace("/tmp/lake", str(root / "lake")))) == 119


def test_a_lost_checkpoint_is_recovered_as_on_the_page(shell: Shell) -> None:
    shell.must_show(block("Prove it, break it, fix it", "console"))


def test_every_command_of_the_page_runs(shell: Shell, tmp_path: Path) -> None:
    for line in block("The commands", "sh").commands():
        command = line.split("   ")[0]
        more = CUT.get(command, [])
        if more is not None:
            shell.run(line, *(flag.format(root=tmp_path) for flag in more), expect=0)
