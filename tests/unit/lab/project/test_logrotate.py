"""`oncelake init` proposes how logs are rotated from logrotate's configuration, and nothing if that does not say it."""

from pathlib import Path

import pytest

from oncelake.lab.project.logrotate import rotation_of


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
