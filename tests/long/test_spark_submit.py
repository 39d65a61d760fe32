"""The program of the how-to page runs the chain under spark-submit, and the proof holds."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.support.given import LINES, SMALL, delta
from tests.support.house import House
from tests.support.places import ROOT
from tests.support.readme import blocks

pytestmark = [pytest.mark.chain, pytest.mark.long]  # two cold starts of Spark


def test_the_how_tos_program_runs_under_spark_submit(tmp_path: Path) -> None:
    house = House.with_error_log(tmp_path)
    house.write("a.log", *LINES)
    found = [block for block in blocks(ROOT / "docs/how-to.md") if block.section == "Run it with spark-submit"]
    program, command = (each.text for each in found)
    (tmp_path / "oncelake_main.py").write_text(program)
    confs = [word for word in command.split() if word.startswith("spark.sql.")]
    assert len(confs) == 3
    confs = [*confs[:2], *(f"{key}={value}" for key, value in SMALL.items())]
    home = Path(pyspark.__file__).parent
    submit = [str(home / "bin/spark-submit"), "--master", "local[2]", "--driver-class-path", delta()]
    submit += [part for conf in confs for part in ("--conf", conf)]
    python = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    for words in (["run", "--once"], ["prove"]):
        done = subprocess.run(
            [*submit, "oncelake_main.py", *words, *house.options],
            capture_output=True,
            text=True,
            env={**os.environ, **python},
            cwd=tmp_path,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "every one exactly once" in done.stdout
    house.must_be(LINES)
