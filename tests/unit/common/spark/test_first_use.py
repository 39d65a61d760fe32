"""The first use prepares a machine once, shows what it does, and does as much as it can."""

import fcntl
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JError

from oncelake import set_up
from oncelake.common.errors import OncelakeError
from oncelake.common.spark import class_data, compiled, first_use, jars
from tests.support.terminal import Terminal

LINE = "oncelake: the first use prepares this machine, once:"
# A machine on which each part takes a moment, in a process of its own: its cache, and how long the demo takes.
PROGRAM = """
import sys, time
from pathlib import Path
from oncelake.common.spark import class_data, compiled, first_use, jars
cache, seconds = Path(sys.argv[1]), float(sys.argv[2])
done = lambda name: (cache / name).open("a").write("x")
jars.cache_home = lambda: cache
jars.class_path = lambda: done("jars") and "a.jar"
jars.are_here = lambda: (cache / "jars").exists()
compiled.jar = lambda: cache / "own.jar"
compiled.write = lambda: done("own.jar")
class_data.archive = lambda: cache / "classes.jsa"
def write(heard):
    for part in range(1, 9):
        heard(f"{part}. A part of the demo:\\n")
        time.sleep(seconds / 8)
    done("classes.jsa")
class_data.write = write
first_use.java_command = lambda: "java"
(cache / f"begun-{time.monotonic_ns()}").touch()
while len(list(cache.glob("begun-*"))) < int(sys.argv[3]):
    time.sleep(0.01)
first_use.prepare()
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the cache of a machine that has Java and nothing else; each part is a file with an x for each try."""

    def does(name: str) -> Callable[..., None]:
        def do(*_: object) -> None:
            with (tmp_path / name).open("a") as file:
                file.write("x")

        return do

    monkeypatch.setattr(jars, "cache_home", lambda: tmp_path)
    monkeypatch.setattr(jars, "are_here", (tmp_path / "jars").exists)
    monkeypatch.setattr(jars, "class_path", does("jars"))
    monkeypatch.setattr(compiled, "jar", lambda: tmp_path / "own.jar")
    monkeypatch.setattr(compiled, "write", does("own.jar"))
    monkeypatch.setattr(class_data, "archive", lambda: tmp_path / "classes.jsa")
    monkeypatch.setattr(class_data, "write", does("classes.jsa"))
    monkeypatch.setattr(first_use, "java_command", lambda: "java")
    return tmp_path


def tries(cache: Path) -> dict[str, int]:
    return {name: len((cache / name).read_text()) for name in ("jars", "own.jar", "classes.jsa")}


ONCE = {"jars": 1, "own.jar": 1, "classes.jsa": 1}


def test_only_the_first_use_prepares_the_machine_and_says_so(cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first_use.prepare()
    said = capfd.readouterr()
    assert (said.out, said.err.count("\n"), said.err.startswith(LINE)) == ("", 1, True)
    first_use.prepare()
    assert tries(cache) == ONCE
    assert capfd.readouterr() == ("", "")


def test_two_first_uses_at_the_same_time_prepare_the_machine_once(cache: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(cache), "0.5", "2"]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in started:
        _, said = process.communicate(timeout=60)
        assert (process.returncode, said.startswith(LINE)) == (0, True), said
    assert tries(cache) == ONCE


def test_a_terminal_shows_a_bar_and_leaves_nothing_behind(cache: Path) -> None:
    terminal = Terminal.start([sys.executable, "-c", PROGRAM, str(cache), "1", "1"], cache)
    assert terminal.end() == 0
    assert "archiving Java's classes" in terminal.said
    assert "━" in terminal.said
    last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.said.splitlines()[-1]) if terminal.said else ""
    assert last.strip() == ""
    assert LINE not in terminal.said


def test_a_waiting_process_says_that_it_waits(cache: Path) -> None:
    with (cache / first_use.LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        terminal = Terminal.start([sys.executable, "-c", PROGRAM, str(cache), "0.1", "1"], cache)
        terminal.wait_for(lambda said: "waiting for another process" in said)
    assert terminal.end() == 0
    assert tries(cache) == ONCE


@pytest.mark.timeout(20)
def test_a_process_that_does_not_end_is_waited_for_only_so_long(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(first_use, "PATIENCE", 0.5)
    with (cache / first_use.LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(
            OncelakeError, match=r"another process has prepared this machine for .*set-up\.lock; end it"
        ):
            first_use.prepare()
        (cache / "jars").touch()
        first_use.prepare()
    assert "going on without what it prepares" in capfd.readouterr().err
    assert not (cache / "own.jar").exists()


def fails_to_compile() -> None:
    raise Py4JError("no such class: SimpleCompiler\n\tat somewhere")


COMPILING = "Java classes could not be compiled (no such class: SimpleCompiler); each file takes some ms longer. "
ARCHIVING = "no archive of Java's classes (the JVM wrote no archive); each start takes some seconds longer. "


@pytest.mark.parametrize(
    ("part", "write", "said"),
    [
        (compiled, fails_to_compile, COMPILING),
        (class_data, lambda _: "the JVM wrote no archive", ARCHIVING),
    ],
    ids=["compiling", "archiving"],
)
@pytest.mark.usefixtures("cache")
def test_what_fails_is_said_once_and_set_up_tries_again(
    part: object, write: Callable[..., object], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part, "write", write)
        for _ in range(3):
            first_use.prepare()
        first, warning = capfd.readouterr().err.splitlines()
        assert first.startswith(LINE)
        assert warning.startswith("oncelake: warning: ")
        assert warning.endswith(f"{said}To try again: python -m oncelake.set_up")
        set_up.main()
        assert said in capfd.readouterr().err
    set_up.main()
    assert (compiled.jar().exists(), class_data.archive().exists()) == (True, True)
    assert not list(jars.cache_home().glob("*.failed"))


def test_a_cache_that_cannot_be_written_matters_only_without_the_libraries(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / "file").touch()
    monkeypatch.setattr(jars, "cache_home", lambda: cache / "file" / "oncelake")
    with pytest.raises(OncelakeError, match=r"Not a directory: .*; set XDG_CACHE_HOME to a directory that"):
        first_use.prepare()
    (cache / "jars").touch()
    first_use.prepare()
    assert not (cache / "own.jar").exists()


def test_the_demo_that_makes_the_archive_prepares_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", '-XX:ArchiveClassesAtExit="/tmp/a.jsa"')
    first_use.prepare()
    assert not any(cache.iterdir())


def test_an_interrupted_first_use_is_begun_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(class_data, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            first_use.prepare()
    thread = threading.Thread(target=first_use.prepare)  # the lock is free
    thread.start()
    thread.join(20)
    assert (cache / "classes.jsa").exists()
    assert not list(cache.glob("*.failed"))
