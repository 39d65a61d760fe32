"""logrotate's configuration says how logs are rotated, which `init` proposes, and what `doctor` warns of."""

from pathlib import Path

import pytest

from oncelake.bronze.settings import Rotation
from oncelake.sources.directory import logrotate
from oncelake.sources.directory.logrotate import rotation_of, rotation_warnings
from tests.support.house import House


@pytest.mark.parametrize(
    ("text", "rotation"),
    [
        ("{logs}/*.log {{\n  daily\n  copytruncate\n}}\n", "copytruncate"),
        ("{logs}/*.log {{\n  daily\n}}\n", "rename"),
        ("copytruncate\n{logs}/app.log {{ rotate 3 }}\n", "copytruncate"),
        ("copytruncate\n{logs}/app.log {{\n  nocopytruncate\n}}\n", "rename"),
        ('# {logs}/*.log {{ copytruncate }}\n"{logs}/app.log"\n{{\n  daily }}\n', "rename"),
        ("{logs}/app.log {{\n postrotate\n  copytruncate\n endscript\n}}\n", "rename"),
        ("/elsewhere/*.log {{ copytruncate }}\n", None),
        ("{logs}/app.log {{ copytruncate }}\n{logs}/other.log {{ daily }}\n", None),
    ],
)
def test_the_entry_of_a_directory_s_logs_says_how_they_are_rotated(
    tmp_path: Path, text: str, rotation: str | None
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in ("app.log", "other.log"):
        (logs / name).touch()
    conf = tmp_path / "logrotate.conf"
    conf.write_text(text.format(logs=logs))
    assert rotation_of(logs, conf) == rotation


def test_included_files_are_read_and_a_missing_configuration_says_nothing(tmp_path: Path) -> None:
    logs, more = tmp_path / "logs", tmp_path / "logrotate.d"
    logs.mkdir()
    more.mkdir()
    (logs / "app.log").touch()
    (more / "app").write_text(f"{logs}/*.log {{\n  copytruncate\n}}\n")
    conf = tmp_path / "logrotate.conf"
    conf.write_text(f"weekly\ninclude {more}\n")
    assert rotation_of(logs, conf) == "copytruncate"
    assert rotation_of(logs, tmp_path / "nothing") is None


def warned(tmp_path: Path, text: str, rotation: Rotation | None = "rename", path: str = "") -> list[str]:
    """Return the warnings for a source, without the directories that the test makes."""
    logs, conf = tmp_path / "logs", tmp_path / "logrotate.conf"
    logs.mkdir(exist_ok=True)
    for name in ("app.log", "app.log.1", "other.log"):
        (logs / name).touch()
    conf.write_text(text.format(logs=logs))
    found = rotation_warnings("source", path.format(logs=logs) or str(logs), rotation, conf)
    return [warning.replace(f"{tmp_path}/", "") for warning in found]


FITS = "{logs}/*.log {{\n daily\n rotate 14\n compress\n delaycompress\n missingok\n}}\n"


def test_logs_that_are_kept_for_days_and_rotated_as_declared_are_no_warning(tmp_path: Path) -> None:
    assert warned(tmp_path, FITS) == []
    assert warned(tmp_path, FITS, None) == []
    assert warned(tmp_path, "{logs}/*.log {{\n weekly\n rotate 4\n copytruncate\n compress\n}}\n", "copytruncate") == []


@pytest.mark.parametrize(
    ("rotation", "more", "said"),
    [
        (
            "rename",
            "copytruncate",
            "logrotate copies and cuts it (copytruncate in logrotate.conf), and source.rotation is rename: the lines "
            "of a copy would count again; set source.rotation to copytruncate",
        ),
        (
            "copytruncate",
            "missingok",
            "logrotate renames it (no copytruncate in logrotate.conf), and source.rotation is copytruncate: a rotated "
            "log that the new one begins with would not be read; set source.rotation to rename",
        ),
        (
            None,
            "copytruncate",
            "logrotate copies and cuts it (copytruncate in logrotate.conf), and source.rotation is not set: a copy "
            "waits until the log is cut; set source.rotation to copytruncate",
        ),
    ],
)
def test_another_rotation_than_the_settings_say_is_a_warning(
    tmp_path: Path, rotation: Rotation | None, more: str, said: str
) -> None:
    text = f"{{logs}}/app.log {{{{\n daily\n rotate 14\n {more}\n}}}}\n"
    assert warned(tmp_path, text, rotation) == [f"logs/app.log: {said}"]


def test_a_value_may_stand_behind_an_equals_sign(tmp_path: Path) -> None:
    assert warned(tmp_path, FITS.replace("rotate 14", "rotate=14\n size=100k")) == []
    (said,) = warned(tmp_path, FITS.replace("rotate 14", "rotate=1"))
    assert "(rotate 1 in " in said


def test_a_log_that_is_compressed_while_its_program_may_write_is_a_warning(tmp_path: Path) -> None:
    text = "compress\n{logs}/app.log {{\n daily\n rotate 14\n}}\n{logs}/other.log {{\n nocompress\n rotate 14\n}}\n"
    assert warned(tmp_path, text) == [
        "logs/app.log: compress without delaycompress (compress in logrotate.conf): what a program still writes to the "
        "rotated log while it is compressed is lost; add delaycompress to logrotate.conf"
    ]


@pytest.mark.parametrize(
    ("directives", "said"),
    [
        ("hourly\n rotate 24", "for 1 d (rotate 24 in logrotate.conf): {lost}; set rotate to 72 or more"),
        ("daily\n rotate 2", "for 2 d (rotate 2 in logrotate.conf): {lost}; set rotate to 3 or more"),
        ("daily\n rotate 0", "not at all (rotate 0 in logrotate.conf): {lost}; set rotate to 3 or more"),
        ("weekly", "not at all (no rotate in logrotate.conf): {lost}; set rotate to 1 or more"),
        ("size 10M\n rotate 2", "for 2 d (rotate 2 in logrotate.conf): {lost}; set rotate to 3 or more"),
        ("weekly\n maxsize 9M\n rotate 1", "for 1 d (rotate 1 in logrotate.conf): {lost}; set rotate to 3 or more"),
    ],
)
def test_a_rotated_log_that_is_deleted_soon_is_a_warning(tmp_path: Path, directives: str, said: str) -> None:
    lost = said.format(lost="lines that no run has read by then are lost")
    assert warned(tmp_path, f"{{logs}}/app.log {{{{\n {directives}\n}}}}\n") == [
        f"logs/app.log: logrotate keeps a rotated log {lost}"
    ]


def test_an_age_that_deletes_a_rotated_log_soon_is_a_warning(tmp_path: Path) -> None:
    text = "maxage 1\nrotate -1\ndaily\n{logs}/app.log {{\n}}\n"
    assert warned(tmp_path, text) == [
        "logs/app.log: logrotate deletes a rotated log after 1 d (maxage 1 in logrotate.conf): lines that no run has "
        "read by then are lost; set maxage to 3 or more"
    ]


def test_only_the_logs_that_the_source_reads_are_looked_at(tmp_path: Path) -> None:
    text = "{logs}/other.log {{\n rotate 0\n}}\n/elsewhere/*.log {{\n rotate 0\n}}\n"
    assert warned(tmp_path, text, path="{logs}/app.log*") == []
    assert len(warned(tmp_path, text, path="{logs}/{{app,other}}.log*")) == 1


def test_the_file_that_is_named_is_the_one_that_has_the_directive(tmp_path: Path) -> None:
    more = tmp_path / "logrotate.d"
    more.mkdir()
    (more / "app").write_text(f"{tmp_path}/logs/app.log {{\n daily\n\trotate\t1\n}}\n")
    (more / "old.dpkg-old").write_text(f"{tmp_path}/logs/app.log {{\n rotate 0\n}}\n")
    (said,) = warned(tmp_path, f"rotate 9\ninclude {more}\n")
    assert "(rotate 1 in logrotate.d/app)" in said


@pytest.mark.parametrize(
    "text",
    [
        "include {logs}\ninclude\ninclude {logs}/../logrotate.conf\n",
        "{logs}/app.log {{\n rotate many\n",
        "'{logs}/app.log {{\n rotate 0\n}}\n",
        "}}}}\x00\nendscript\n{logs}/app.log\n",
        "{logs}/app.log {{\n maxage\n rotate 99999999999999\n size\n}}\n",
        "/var/log/**.log {{\n rotate 0\n}}\n",
        '"" {{\n rotate 0\n}}\n',
        "/ {{\n rotate 0\n}}\n",
        "{logs}/app.log {{\n monthly\n rotate 99999999\n maxage 99999999\n}}\n",
    ],
)
def test_a_configuration_that_is_wrong_says_nothing(tmp_path: Path, text: str) -> None:
    assert warned(tmp_path, text) == []


def test_a_configuration_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    assert list(rotation_warnings("source", str(tmp_path), "rename", tmp_path)) == []
    assert list(rotation_warnings("source", str(tmp_path), "rename", tmp_path / "none")) == []


def test_doctor_warns_of_what_logrotate_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House.with_error_log(tmp_path)
    conf = tmp_path / "logrotate.conf"
    conf.write_text(f"{house.logs}/*.log {{\n daily\n rotate 1\n}}\n")
    monkeypatch.setattr(logrotate, "CONFIGURATION", conf)
    house.write("app.log", b"2017-07-30 14:09:08 ERROR one")
    assert house.lakehouse().doctor().warnings == []
    house.sets = ["source.kind=tail"]
    result = house.lakehouse().doctor()
    assert ["keeps a rotated log for 1 d" in warning for warning in result.warnings] == [True]
    assert result.may_start
