"""Faster access to local files: Hadoop's local file system without a process for each file.

PySpark is shipped without Hadoop's native library. Hadoop then runs `chmod` for each file that it creates and
`readlink` for each file that it renames: dozens of processes per batch, 8 ms each. `DirectFileSystem.java` does the
same with system calls. Until it is compiled, Hadoop's own file system is used. Source: `RawLocalFileSystem` and
`Shell` of Hadoop 3.4.
"""

from collections.abc import Container, Mapping

from oncelake.common.spark.compiled import CLASS_PATH, is_here, left_out

LOG_STORE = "spark.delta.logStore.file.impl"
CONF: Mapping[str, str] = {
    "spark.hadoop.fs.file.impl": "oncelake.DirectFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "oncelake.DirectFileSystem$Context",
    LOG_STORE: "oncelake.DirectFileSystem$Log",
}


def conf(user_keys: Container[str] = ()) -> Mapping[str, str]:
    """Return the Spark settings that switch the direct file system on; empty if it cannot be used.

    Args:
        user_keys: the keys that the user sets; the user's own class path or file system replaces all of these settings.
    """
    return CONF if why_not(user_keys) is None else {}


def why_not(user_keys: Container[str]) -> str | None:
    """Return why the direct file system is not used, and what to do; None if it is used."""
    why = replaced(user_keys)
    if why is None and not is_here():
        return "oncelake's log store is not compiled; run python -m oncelake.set_up"
    if why is None and (reason := left_out().get("DirectFileSystem")):
        return f"oncelake's log store does not fit this Spark ({reason}); use another version of PySpark"
    return why


def replaced(user_keys: Container[str]) -> str | None:
    """Return which of the user's settings replaces the direct file system, and what to do; None if none does."""
    own = next((key for key in (CLASS_PATH, *CONF) if key in user_keys), None)
    return None if own is None else f"spark.conf.{own} replaces oncelake's log store; remove that setting"
