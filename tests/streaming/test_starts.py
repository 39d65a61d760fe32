"""Every way a start can fail that is known here has its exit code, its sentence and the remedy of its cause.

The causes are from the questions about Spark that people ask most, and by trial. Most are refused before Java starts.
"""

import shlex
import subprocess
import sys
from dataclasses import dataclass

import deltalake
import pyarrow
import pytest

from oncelake.common.spark.versions import installed
from tests.support.house import House

pytestmark = pytest.mark.chain
# What no start that fails may say: a replay is no remedy here.
WRONG = ("Traceback", "start again", "the batch is replayed", "Exception in thread", "\n\tat ")


@dataclass(frozen=True)
class Cause:
    """A way in which a start fails.

    Attributes:
        what: the cause.
        said: what the one line says, in order.
        shell: what happens in the shell before oncelake starts; `$D` is a directory, `$L` the lake's root.
        sets: further settings.
        code: the exit code.
        alone: what gives it a namespace of its own; nothing if it needs none.
        command: the command.
    """

    what: str
    said: tuple[str, ...]
    shell: str = ""
    sets: tuple[str, ...] = ()
    code: int = 2
    alone: tuple[str, ...] = ()
    command: str = "run --once"


MOUNTS = ("unshare", "-m", "-u")
NAMELESS = ("unshare", "--user", "--map-user=4321", "--map-group=4321")
OPTIONS = "spark.conf.spark.driver.extraJavaOptions"
JAVA = f"Spark {installed().name} needs Java 17"
READS = "Correct what it reads at its start: spark.master, spark.driver_memory, spark.conf"
FAKE = (
    "mkdir -p $D/bin $D/jars; echo 'exit 1' > $D/bin/spark-submit; chmod 755 $D/bin/spark-submit; export SPARK_HOME=$D"
)
CAUSES = (
    # the user and the network
    Cause(
        "no name and no home",
        ("has no home directory", "set HOME, or XDG_CACHE_HOME"),
        "unset HOME XDG_CACHE_HOME",
        alone=NAMELESS,
    ),
    Cause(
        "no name",
        (
            "the user with the number 4321 has no name",
            "an entry in /etc/passwd, or add one: oncelake:x:4321:4321::/tmp:/bin/sh",
        ),
        "export HOME=$D",
        alone=NAMELESS,
    ),
    Cause(
        "the host has no address, and a cluster needs it",
        ("this host's name no-such-host-5c2f has no address", "set SPARK_LOCAL_IP"),
        "hostname no-such-host-5c2f",
        ("spark.master=spark://127.0.0.1:1",),
        alone=MOUNTS,
    ),
    Cause(
        "no loopback interface",
        ("cannot connect to 127.0.0.1 (Network is unreachable)", "ip link set lo up"),
        alone=("unshare", "-n"),
    ),
    Cause(
        "a gateway that is gone",
        ("PYSPARK_GATEWAY_PORT=1: no Spark listens there; unset it",),
        "export PYSPARK_GATEWAY_PORT=1 PYSPARK_GATEWAY_SECRET=x",
    ),
    Cause("Spark Connect", ("SPARK_REMOTE is set", "unset SPARK_REMOTE"), "export SPARK_REMOTE=sc://localhost"),
    # the limits
    Cause("few files", ("may have 64 open files (ulimit -n), and Spark needs ", "ulimit -n 512"), "ulimit -n 64"),
    Cause(
        "few addresses",
        ("may have 2000000 KiB of addresses (ulimit -v), and Spark needs ", "ulimit -v unlimited"),
        "ulimit -v 2000000",
    ),
    Cause(
        "a small heap", ("spark.driver_memory: expected at least 512m", "'300m'"), sets=("spark.driver_memory=300m",)
    ),
    Cause(
        "a heap larger than the machine",
        ("Spark's JVM did not start: exit code 1; it said: Could not reserve enough space", READS),
        sets=("spark.driver_memory=900000g",),
        code=1,
    ),
    # Java
    Cause(
        "another small heap",
        ("_JAVA_OPTIONS has -Xmx300m, which overrides spark.driver_memory, and Spark needs a heap of 450m or more",),
        "export _JAVA_OPTIONS=-Xmx300m",
    ),
    Cause("no Java", ("no Java found (looked in JAVA_HOME=/none)",), "export JAVA_HOME=/none"),
    Cause("no Java on the path", ("no Java found (looked in PATH)",), "unset JAVA_HOME; PATH=$D"),
    Cause(
        "another Java",
        (f"bin/java is Java 11.0.2; {JAVA}",),
        """mkdir $D/bin; printf '%s\\n' '#!/bin/sh' "echo 'openjdk version \\"11.0.2\\"' >&2" > $D/bin/java; """
        "chmod 755 $D/bin/java; export JAVA_HOME=$D",
    ),
    Cause(
        "a Java of another machine",
        (f"bin/java is Java of an unknown version; {JAVA}",),
        "mkdir $D/bin; echo x > $D/bin/java; chmod 755 $D/bin/java; export JAVA_HOME=$D",
    ),
    *(
        Cause(
            f"{name} that Java refuses",
            ("java does not start: ", "onsense", f"Correct or unset {name}"),
            f"export {name}=-Xnonsense",
        )
        for name in ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
    ),
    Cause(
        "an option that Java refuses",
        ("Spark's JVM did not start: exit code 1; it said: Initial heap size set to a larger value", READS),
        sets=(f"{OPTIONS}=-Xms2g",),
        code=1,
    ),
    # Spark's own variables and files
    Cause("no Spark", ("SPARK_HOME=/none has no bin/spark-submit; unset it",), "export SPARK_HOME=/none"),
    Cause(
        "another Spark",
        (" is Spark 3.5.1, and this Python has PySpark 4.", "unset it"),
        f"{FAKE}; touch $D/jars/spark-core_2.12-3.5.1.jar",
    ),
    Cause(
        "a script that fails",
        ("Spark's JVM did not start: exit code 3; it said: not today", READS, "SPARK_CONF_DIR"),
        "echo 'echo not today; exit 3' > $D/spark-env.sh; export SPARK_CONF_DIR=$D",
        code=1,
    ),
    Cause(
        "arguments with which it ends at once",
        ("Spark's JVM did not start: exit code 0", READS, "PYSPARK_SUBMIT_ARGS"),
        "export PYSPARK_SUBMIT_ARGS=--version",
        code=1,
    ),
    Cause(
        "a broken file of Hadoop",
        ("Spark's JVM did not start: exit code 1; it said: ", READS, "HADOOP_CONF_DIR"),
        "echo '<broken' > $D/core-site.xml; export HADOOP_CONF_DIR=$D",
        code=1,
    ),
    Cause(
        "another PySpark",
        ("a library does not fit this oncelake: ", "pyspark/__init__.py", "PYTHONPATH"),
        "mkdir $D/pyspark; echo '__version__ = \"2.4.8\"' > $D/pyspark/__init__.py; export PYTHONPATH=$D:$PYTHONPATH",
    ),
    # directories
    Cause("no directory", ("the current directory no longer exists",), "mkdir $D/x; cd $D/x; rmdir $D/x"),
    Cause(
        "temporary files may not be run",
        (" is mounted with noexec", "set TMPDIR to a directory of another file system"),
        "mount -t tmpfs -o noexec tmpfs $D; export TMPDIR=$D",
        alone=MOUNTS,
    ),
    Cause(
        "no room for temporary files",
        ("the disk has 1 MiB left, and Spark needs 32", "set TMPDIR"),
        "mount -t tmpfs -o size=1m tmpfs $D; export TMPDIR=$D",
        alone=MOUNTS,
    ),
    Cause("a file at the lake's root", ("is a file, and the tables need a directory",), "echo mine > $L"),
    Cause(
        "a read-only disk of the lake",
        ("lake.root ", " is read-only; set another directory, or mount it writable"),
        "mkdir $L; mount -t tmpfs -o ro tmpfs $L",
        alone=MOUNTS,
    ),
    Cause(
        "a full disk of the lake",
        ("lake.root ", " is full; free some space, or set another directory"),
        "mkdir $L; mount -t tmpfs -o size=64k tmpfs $L; head -c 100k /dev/zero > $L/x 2>/dev/null",
        alone=MOUNTS,
    ),
    Cause(
        "a lake that may not be written",
        ("this process may not write to ", "set another directory, or grant it"),
        "mkdir $L; chmod 555 $L",
    ),
    Cause("a foreign table", ("bronze: foreign", "rows"), "touch $D/foreign", code=1, command="doctor"),
)
LONG = (
    Cause(
        "a heap that Java makes too small",
        ("Spark did not start with master local[*]: ", "must be at least 471859200", "remove -Xmx from _JAVA_OPTIONS"),
        "export _JAVA_OPTIONS=-Xmx480m",
        code=1,
    ),
    Cause(
        "a module that this Java lacks",
        ("Spark's JVM did not start: exit code 1; it said: ", "Module no.such not found"),
        sets=(f"{OPTIONS}=--add-modules=no.such",),
        code=1,
    ),
    Cause(
        "an argument that there is not",
        ("Spark's JVM did not start: exit code 1; it said: ", READS, "PYSPARK_SUBMIT_ARGS"),
        "export PYSPARK_SUBMIT_ARGS='--nonsense pyspark-shell'",
        code=1,
    ),
    Cause(
        "a master that there is not",
        ("Spark's JVM did not start: exit code 1; it said: ", "Master must either be yarn or start with", READS),
        sets=("spark.master=nonsense",),
        code=1,
    ),
    Cause(
        "a local directory of Spark that cannot be",
        ("Spark did not start with master local[*]: Spark's JVM ended (exit code 53; it said: ",),
        "export SPARK_LOCAL_DIRS=/dev/null/x",
        code=1,
    ),
)


def may(namespace: tuple[str, ...]) -> bool:
    """Return True if this user may have such a namespace of its own."""
    return not namespace or subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode == 0


def end(house: House, cause: Cause, seconds: float = 60) -> tuple[int, str]:
    """Start oncelake under a cause; return its exit code and what it printed."""
    place = house.root / "place"
    place.mkdir()
    sets = ("spark.driver_memory=1g", *cause.sets)
    flags = [*house.options, *(part for setting in sets for part in ("--set", setting))]
    command = [sys.executable, "-m", "oncelake", *shlex.split(cause.command), *flags]
    # a user that is root has every right, except without this capability
    bare = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if "chmod 555" in cause.shell else []
    lines = (f"D={place}; L={house.lake}", cause.shell or ":", f"exec {shlex.join(command)}")
    done = subprocess.run(
        [*cause.alone, *bare, "bash", "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        cwd=house.root,
    )
    return done.returncode, done.stdout + done.stderr


def check(house: House, cause: Cause) -> None:
    code, said = end(house, cause)
    assert code == cause.code, said
    place = 0
    for part in cause.said:
        assert part in said[place:], said
        place = said.index(part, place)
    for wrong in WRONG:
        assert wrong not in said
    if cause.command == "run --once":
        assert said.startswith("oncelake: ")
        assert said.count("\n") == 1, said


@pytest.mark.skipif(sys.platform != "linux", reason="the limits and the namespaces are Linux's")
@pytest.mark.parametrize("cause", CAUSES, ids=[cause.what for cause in CAUSES])
def test_a_start_that_fails_says_its_cause_and_the_remedy(house: House, cause: Cause) -> None:
    if not may(cause.alone):
        pytest.skip(f"this user may not {cause.alone}")
    if cause.what == "a foreign table":
        foreign = pyarrow.table({"theirs": ["a row"]})
        deltalake.write_deltalake(str(house.lake / "bronze/access_log"), foreign)
    check(house, cause)


@pytest.mark.long
@pytest.mark.parametrize("cause", LONG, ids=[cause.what for cause in LONG])
def test_a_spark_that_does_not_start_says_its_cause(house: House, cause: Cause) -> None:
    check(house, cause)


@pytest.mark.long
def test_a_host_without_an_address_is_no_matter_for_one_machine(house: House) -> None:
    if not may(MOUNTS):
        pytest.skip("this user may not name the host")
    house.write("a.log", b"2017-07-30 14:10:00 ERROR one")
    code, said = end(house, Cause("a host", (), "hostname no-such-host-5c2f", alone=MOUNTS), 120)
    assert code == 0, said


def test_odd_variables_are_no_matter(house: House) -> None:
    odd = Cause("odd", (), "export TZ=Nonsense/Zone LC_ALL=C LANG=xx_YY", command="doctor")
    code, said = end(house, odd)
    assert (code, "bronze: fresh" in said) == (0, True), said
