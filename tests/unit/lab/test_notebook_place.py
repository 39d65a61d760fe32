"""A notebook opens the lake that is named or creates its own, and then uses nothing else of the user's."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from oncelake.common.errors import ConfigError
from oncelake.common.spark.runtime import DATABRICKS
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.configuration import CONF, SCRATCH, SETS, configured
from oncelake.lab.notebook_place import choose
from tests.support.house import until
from tests.support.places import ROOT

LOOKS, PLAYS = "01_explore_errors", "03_replay_is_a_noop"


def test_the_directory_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    (place / "gold").mkdir(parents=True)
    stays = (
        "import sys, time; from pathlib import Path; from oncelake.common.afterwards import remove_afterwards; "
        "remove_afterwards(Path(sys.argv[1])); print('ready', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", stays, str(place)], stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    assert place.exists()
    process.kill()
    process.communicate()
    until(lambda: not place.exists(), 20)
    assert not place.exists()


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove all variables of the user, and put temporary directories below the test's own."""
    for name in [variable for variable in os.environ if variable.startswith("ONCELAKE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def widgets(monkeypatch: pytest.MonkeyPatch, filled: Mapping[str, str]) -> dict[str, str]:
    """Replace Databricks' widgets; return those that were created, with their defaults."""
    made: dict[str, str] = {}
    fields = SimpleNamespace(text=made.__setitem__, get=lambda name: {**made, **filled}[name])
    shell = SimpleNamespace(user_ns={"dbutils": SimpleNamespace(widgets=fields)})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setenv(DATABRICKS, "17.3")
    return made


def test_a_reading_notebook_opens_the_lake_named_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONF, "conf/mine.yaml")
    monkeypatch.setenv(SETS, "lake.root=/data/my lake; source.path=/logs")
    chosen = choose(LOOKS, None, ["run.trigger=1s"])
    assert not chosen.own
    assert chosen.conf == Path("conf/mine.yaml").absolute()
    assert chosen.sets == ("lake.root=/data/my lake", "source.path=/logs", "run.trigger=1s")
    assert "conf/mine.yaml" in chosen.description
    assert "/data/my lake" in chosen.description


def test_a_killing_notebook_never_opens_the_named_lake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONF, str(shipped_conf() / "local.yaml"))
    monkeypatch.setenv(SETS, "lake.root=/data/lake")
    chosen = choose(PLAYS, None, [])
    assert chosen.own
    settings, _ = configured(chosen.conf, chosen.sets)
    assert settings.places().root == str(chosen.root / "lake")
    assert settings.places().checkpoints.startswith(str(chosen.root))
    assert settings.by_name["access_log"].path == str(chosen.root / "logs")


@pytest.mark.parametrize("name", [LOOKS, PLAYS])
def test_a_notebooks_own_lake_ignores_the_environment(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("ONCELAKE_SERVING__URL", "mysql+pymysql://user:password@db.example/alog")
    monkeypatch.setenv("ONCELAKE_LAKE__CATALOG", "prod")
    chosen = choose(name, None, [])
    settings, _ = configured(chosen.conf, chosen.sets)
    assert (chosen.own, settings.serving.url, settings.lake.catalog) == (True, None, None)


def test_a_users_own_notebook_only_reads_the_lake_that_it_names() -> None:
    chosen = choose("my_analysis", shipped_conf() / "local.yaml", ["lake.root=/data/lake"])
    assert not chosen.own
    assert chosen.sets == ("lake.root=/data/lake",)
    assert "it changes nothing there" in chosen.description


@pytest.mark.parametrize("place", ["lake.root=/data/lake", "lake={root: /data/lake}", "checkpoints=/data/checkpoints"])
def test_a_writing_notebook_gets_no_lake_from_its_settings(place: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"{PLAYS} writes, so it always uses its own lake: remove {re.escape(place)};"
    ):
        choose(PLAYS, None, [place])


def test_a_named_directory_is_used_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(SCRATCH, str(tmp_path / "scratch"))
    chosen = choose(PLAYS, None, [])
    assert chosen.root.parent == tmp_path / "scratch"
    assert "is kept" in chosen.description


def test_relative_paths_start_above_the_notebooks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    monkeypatch.setenv(CONF, "conf/mine.yaml")
    assert choose(LOOKS, None, []).conf == tmp_path / "conf/mine.yaml"
    assert choose(LOOKS, None, []).conf == tmp_path / "conf/mine.yaml", "when the first cell is run once more"


def test_on_databricks_a_reading_notebook_uses_its_widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    made = widgets(monkeypatch, {"sets": "lake.catalog=main\nsource={path: /Volumes/main/default/logs}\n"})
    chosen = choose(LOOKS, None, [])
    assert made == {"conf": "conf/dev.yaml", "sets": ""}
    assert chosen.conf == Path("conf/dev.yaml").absolute()
    assert chosen.sets == ("lake.catalog=main", "source={path: /Volumes/main/default/logs}")


def test_on_databricks_a_notebooks_own_lake_needs_a_named_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(DATABRICKS, "17.3")
    with pytest.raises(ConfigError, match=f"{PLAYS} .* {SCRATCH} to a directory in a volume"):
        choose(PLAYS, None, [])
    monkeypatch.setenv(SCRATCH, str(tmp_path / "volume"))
    assert choose(PLAYS, None, []).own
