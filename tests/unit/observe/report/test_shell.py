"""The command to trace a line gives a shell exactly the line's bytes."""

import shlex
import subprocess

import pytest

from oncelake.observe.report.shell import trace_command, word

TEXTS = (
    b"/logs/app.log:2017-07-30 14:09:08 ERROR some message",
    b'it\'s "quoted" $HOME `id` \\ !',
    b"a\ttab and \x1b[2J",
    b"not utf-8: \xff\xfe'\\",
    "späte Zeile \u202e mit Marken".encode(),
    b"",
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_shell_reads_exactly_the_bytes(text: bytes) -> None:
    result = subprocess.run(["bash", "-c", f"printf %s {word(text)}"], capture_output=True, check=True)
    assert result.stdout == text
    assert word(text).isprintable()


def test_a_command_that_a_page_would_change_is_left_out() -> None:
    assert trace_command(b"alog/0/1234") == "oncelake trace alog/0/1234"
    assert shlex.split(trace_command(TEXTS[1]) or "") == ["oncelake", "trace", TEXTS[1].decode()]
    assert trace_command(b"a.log:open mysql://user:hush@host/db") is None
    assert trace_command(b"a.log:" + b"x" * 2_000) is None
    assert trace_command(b"a.log:zero \x00 byte") is None
