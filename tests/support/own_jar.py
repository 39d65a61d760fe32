"""Write the jar of oncelake's own Java classes as another Spark would leave it: without some of them."""

import json
import shutil
import zipfile
from collections.abc import Container
from pathlib import Path

import pytest

from oncelake.common.spark import class_data, compiled, jars

WHY = "A method named ofRows is not declared"
NAMED = tuple(name for name, without in compiled.CLASSES.items() if without)


def write_without(names: Container[str] = (), source: Path | None = None) -> None:
    """Write the jar of this cache.

    Args:
        names: the classes that are left out.
        source: a complete jar; None for one without any class.
    """
    left_out = {name: WHY for name in compiled.CLASSES if name in names}
    with zipfile.ZipFile(compiled.jar(), "w") as made:
        if source is not None:
            with zipfile.ZipFile(source) as whole:
                for name in whole.namelist():
                    own = name.partition("/")[2].partition("$")[0].removesuffix(".class")
                    if own in compiled.CLASSES and own not in left_out:
                        made.writestr(name, whole.read(name))
        made.writestr("oncelake/left-out.json", json.dumps(left_out))


def cache_without(names: Container[str], cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process and those that it starts use a cache with no archive, and a jar that lacks some classes."""
    whole, here = compiled.jar(), jars.cache_home()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    jars.cache_home().mkdir(parents=True)
    for known in here.glob("*.classpath"):
        shutil.copy(known, jars.cache_home())
    write_without(names, whole)
    class_data.archive().with_suffix(".failed").write_text("none here")
