"""A systemd unit has few rights, starts what it names, holds no secret, and is refused if it could not work."""

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oncelake.cli.app import app
from oncelake.common.errors import ConfigError
from oncelake.engine.runner import GRACE
from oncelake.lab.project.service import Service, ServiceOptions, service_of, write_units

ME = pwd.getpwuid(os.geteuid()).pw_name
AS_ME = ["--run-as", ME]
ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="needs systemd-analyze")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can try what another user may")


@pytest.fixture
def project() -> Iterator[Path]:
    """Change to a project that every user can read, as below /srv, and that `bin/oncelake` belongs to."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="50% of 'my' $logs ") as name:
        directory = Path(name).resolve()
        directory.chmod(0o755)
        for inside in ("logs", "lake", "conf", "bin"):
            (directory / inside).mkdir()
        conf = "source: {kind: tail, path: logs}\nlake: {root: lake}\ngold: {}\n"
        (directory / "conf/local.yaml").write_text(conf)
        for program in ("python", "oncelake"):
            (directory / "bin" / program).write_text("#!/bin/sh\n")
            (directory / "bin" / program).chmod(0o755)
        os.chdir(directory)
        yield directory
        os.chdir(before)


@pytest.fixture(autouse=True)
def _installed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "project" in request.fixturenames:
        monkeypatch.setattr(sys, "executable", str(request.getfixturevalue("project") / "bin/python"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def install(*arguments: str, expect: int = 0) -> str:
    result = CliRunner().invoke(app, ["install-service", *arguments])
    assert result.exit_code == expect, result.output
    assert "Traceback" not in result.output
    return result.output


def units(*arguments: str) -> dict[str, str]:
    written = json.loads(install("--dry-run", "--json", *arguments))["units"]
    assert isinstance(written, dict)
    return written


def values(text: str, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)


@needs_systemd
@pytest.mark.parametrize(
    "arguments", [AS_ME, [*AS_ME, "--every", "10 minutes"], ["--user"], ["--user", "--every", "1 hour"]], ids=" ".join
)
@pytest.mark.usefixtures("project")
def test_systemd_accepts_each_unit_and_finds_little_exposure(tmp_path: Path, arguments: list[str]) -> None:
    files = [tmp_path / name for name in units(*arguments)]
    for file, text in zip(files, units(*arguments).values(), strict=True):
        file.write_text(text)
    verify = [str(ANALYZE), "verify", "--man=no", *map(str, files)]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    command = [str(ANALYZE), "security", "--offline=true", "--no-pager", str(files[0])]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    exposure = re.search(r"Overall exposure level for .*: ([\d.]+)", said)
    assert exposure is not None
    assert float(exposure[1]) < 3, said


def test_only_the_lake_can_be_written_and_the_logs_cannot(project: Path) -> None:
    text = units(*AS_ME)["oncelake.service"]
    place = str(project).replace("%", "%%")
    assert values(text, "ProtectSystem") == ["strict"]
    assert values(text, "ReadWritePaths") == [f'"{place}/lake"']
    assert values(text, "ReadOnlyPaths") == [f'"-{place}/logs"']
    assert values(text, "WorkingDirectory") == [place]
    in_command = place.replace("$", "$$")
    assert values(text, "ExecStart") == [
        f'/usr/bin/env "{in_command}/bin/oncelake" run -c "{in_command}/conf/local.yaml"'
    ]


def test_what_a_run_writes_elsewhere_can_be_written_too(project: Path) -> None:
    (project / "conf/local.yaml").write_text(
        "source: {kind: tail, path: 'logs/{a,b}/*.log'}\nlake: {root: lake}\ncheckpoints: points\n"
        "spark: {conf: {spark.local.dir: 'scratch,/other'}}\ngold: {}\n"
        "serving: {url: 'sqlite:///db/x.db', tables: []}\n"
    )
    text = units(*AS_ME, "--write", "sink")["oncelake.service"]
    place = str(project).replace("%", "%%")
    names = ("lake", "points", "scratch", "db", "sink")
    assert {*values(text, "ReadWritePaths")} == {*(f'"{place}/{name}"' for name in names), "/other"}
    assert values(text, "ReadOnlyPaths") == [f'"-{place}/logs"']


def test_secrets_stay_in_their_file_and_complete_the_configuration(project: Path) -> None:
    (project / "conf/local.yaml").write_text(
        "source: {path: logs}\nlake: {root: lake}\ngold: {}\nserving: {tables: []}\n"
    )
    assert "serving.tables is set" in install("--dry-run", *AS_ME, expect=2)
    secrets = project / "secrets.env"
    secrets.touch(mode=0o600)
    secrets.write_text("# of the database\nONCELAKE_SERVING__URL='mysql://me:hush@db/x'\n")
    text = units(*AS_ME)["oncelake.service"]
    assert values(text, "EnvironmentFile") == [f"-{str(secrets).replace('%', '%%')}"]
    assert "hush" not in text
    assert "ONCELAKE_SERVING__URL" not in os.environ


@pytest.mark.usefixtures("project")
def test_a_stop_waits_for_the_batch_and_a_wrong_configuration_is_not_started_again() -> None:
    text = units(*AS_ME)["oncelake.service"]
    assert (values(text, "KillMode"), values(text, "KillSignal")) == (["mixed"], ["SIGTERM"])
    assert float(values(text, "TimeoutStopSec")[0]) > GRACE
    assert values(text, "Restart") == ["on-failure"]
    assert values(text, "RestartPreventExitStatus") == [str(ConfigError.exit_code)]
    assert values(text, "StartLimitBurst") == ["100"]
    assert "[Install]\nWantedBy=multi-user.target\n" in text


@pytest.mark.parametrize(("version", "wait"), [("252", ["60"]), ("254.5", ["15"])])
def test_restarts_wait_longer_each_time_where_systemd_can(
    project: Path, monkeypatch: pytest.MonkeyPatch, version: str, wait: list[str]
) -> None:
    (project / "bin/systemctl").write_text(f"#!/bin/sh\necho 'systemd {version} ({version}-1)'\n")
    (project / "bin/systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{project / 'bin'}:{os.environ['PATH']}")
    text = units(*AS_ME)["oncelake.service"]
    assert values(text, "RestartSec") == wait
    assert values(text, "RestartMaxDelaySec") == (["10min"] if wait == ["15"] else [])


@pytest.mark.usefixtures("project")
def test_a_timer_starts_runs_that_end() -> None:
    written = units(*AS_ME, "--every", "10 minutes", "--name", "lake-2")
    assert [*written] == ["lake-2.service", "lake-2.timer"]
    assert " run --once -c " in values(written["lake-2.service"], "ExecStart")[0]
    assert values(written["lake-2.service"], "Type") == ["oneshot"]
    assert values(written["lake-2.service"], "SuccessExitStatus") == [str(128 + 15)]
    assert values(written["lake-2.service"], "Restart") == []
    assert "[Install]" not in written["lake-2.service"]
    assert values(written["lake-2.timer"], "OnUnitInactiveSec") == ["600"]
    assert (
        "--now lake-2.timer"
        in json.loads(install("--dry-run", "--json", *AS_ME, "--every", "10 minutes", "--name", "lake-2"))["next"]
    )


@pytest.mark.usefixtures("project")
def test_a_service_of_ones_own_needs_no_root() -> None:
    text = units("--user")["oncelake.service"]
    assert values(text, "User") == values(text, "RemoveIPC") == []
    assert values(text, "PrivateUsers") == ["yes"]
    assert values(text, "WantedBy") == ["default.target"]
    assert values(text, "ProtectHome") == ["read-only"]


def test_homes_and_temporary_files_are_hidden_unless_the_service_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelake.lab.project.service.sys", _Installed)

    def written(lake: str) -> tuple[list[str], list[str]]:
        text = Service(Path("/srv"), Path("/srv/c.yaml"), ServiceOptions("me"), (Path(lake),)).units()[
            "oncelake.service"
        ]
        return values(text, "ProtectHome"), values(text, "PrivateTmp")

    if not tmp_path.is_relative_to("/home"):
        assert written("/srv/lake")[1] == ["yes"]
    assert written("/tmp/lake")[1] == written("/var/tmp/lake")[1] == ["no"]
    assert written("/home/me/lake")[0] == written("/root/lake")[0] == ["read-only"]


class _Installed:
    prefix = base_prefix = "/opt/oncelake"
    executable = "/opt/oncelake/bin/python"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-c", "none.yaml"], "there is no configuration none.yaml"),
        (["--name", "a b"], "--name a b: expected letters"),
        (["--every", "often"], "--every often: "),
        (["--every", "10 milliseconds"], "--every: expected a second or more"),
        (["--run-as", "nobody-here"], "--run-as nobody-here: there is no such user"),
        (["--group", "nobody-here"], "--group nobody-here: there is no such group"),
        (["--user", "--group", "adm"], "--user is a service of this user"),
    ],
)
@pytest.mark.usefixtures("project")
def test_wrong_use_is_refused_by_name(arguments: list[str], said: str) -> None:
    user = [] if "--user" in arguments or "--run-as" in arguments else AS_ME
    printed = install("--dry-run", *user, *arguments, expect=2)
    assert said in printed
    assert printed.count("\n") == 1


@needs_root
@pytest.mark.usefixtures("project")
def test_root_names_the_user() -> None:
    assert "name the user that the service runs as" in install("--dry-run", expect=2)


@needs_root
@pytest.mark.parametrize(
    ("path", "mode", "said"),
    [
        ("bin/oncelake", 0o700, "may not run "),
        ("conf/local.yaml", 0o600, "may not read "),
        ("logs", 0o700, "may not read "),
        ("lake", 0o755, "may not write "),
    ],
)
def test_a_user_without_the_rights_is_refused_by_the_path(project: Path, path: str, mode: int, said: str) -> None:
    (project / "lake").chmod(0o777)
    (project / path).chmod(mode)
    printed = install("--dry-run", "--run-as", "nobody", expect=2)
    assert f"the user nobody {said}" in printed
    assert str(project / path) in printed.replace("'\"'\"'", "'")


def test_a_missing_directory_of_logs_is_refused(project: Path) -> None:
    (project / "logs").rmdir()
    assert f"{project}/logs: there is no such directory" in install("--dry-run", *AS_ME, expect=2)


def test_settings_that_only_this_shell_has_are_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCELAKE_LAKE__ROOT", "/data/lake")
    assert "ONCELAKE_LAKE__ROOT: set in this shell" in install("--dry-run", *AS_ME, expect=2)
    (project / "secrets.env").touch(mode=0o600)
    (project / "secrets.env").write_text(f"ONCELAKE_LAKE__ROOT={project}/elsewhere\n")
    assert values(units(*AS_ME)["oncelake.service"], "ReadWritePaths")[0].endswith('/elsewhere"')


def test_secrets_that_others_can_read_are_refused(project: Path) -> None:
    (project / "secrets.env").touch(mode=0o644)
    assert "secrets.env can be read by others than its owner: chmod 600" in install("--dry-run", *AS_ME, expect=2)


def test_a_catalog_does_not_say_where_tables_are(project: Path) -> None:
    (project / "conf/local.yaml").write_text(
        "source: {path: logs}\nlake: {catalog: spark_catalog}\ncheckpoints: points\ngold: {}\n"
    )
    assert "name their directory with --write" in install("--dry-run", *AS_ME, expect=2)
    assert len(values(units(*AS_ME, "--write", "warehouse")["oncelake.service"], "ReadWritePaths")) == 2


def test_what_the_service_writes_is_there_before_it_starts(project: Path, tmp_path: Path) -> None:
    (project / "lake").rmdir()
    files = write_units(service_of(None, ServiceOptions(ME)), tmp_path / "system")
    assert files == [tmp_path / "system/oncelake.service"]
    assert (project / "lake").is_dir()
    assert files[0].stat().st_mode & 0o777 == 0o644


@pytest.mark.usefixtures("project")
def test_only_units_of_oncelake_are_replaced(tmp_path: Path) -> None:
    def write(every: float | None = None) -> list[Path]:
        wait = timedelta(seconds=every) if every is not None else None
        return write_units(service_of(None, ServiceOptions(ME, every=wait)), tmp_path)

    write()
    assert len(write(60)) == 2
    with pytest.raises(ConfigError, match="timer would go on starting"):
        write()
    (tmp_path / "oncelake.service").write_text("[Service]\n")
    with pytest.raises(ConfigError, match="was not written by oncelake"):
        write(60)
    assert (tmp_path / "oncelake.service").read_text() == "[Service]\n"


@pytest.mark.usefixtures("project")
def test_a_path_that_no_unit_can_hold_is_refused() -> None:
    with pytest.raises(ConfigError, match="no systemd unit can hold"):
        Service(Path("/a\nb"), Path("/c"), ServiceOptions(ME), ()).units()


@pytest.mark.usefixtures("project")
def test_the_command_says_what_it_wrote_and_what_comes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    unit = tmp_path / "systemd/user/oncelake.service"
    steps = "systemctl --user daemon-reload && systemctl --user enable --now oncelake.service && loginctl enable-linger"
    assert install("--user") == f"wrote {unit}\nnext: {steps}\n"
    said = json.loads(install("--user", "--json"))
    assert (said["files"], said["next"]) == ([str(unit)], steps)
    assert unit.read_text() == install("--user", "--dry-run")
