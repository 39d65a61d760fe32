"""A command that only looks at a lake imports few libraries: pandas alone would take longer than most of them."""

import shlex
from collections.abc import Iterator

import pytest

from oncelake.common.spark.versions import installed
from tests.frozen.lakes import LAKES
from tests.frozen.place import frozen
from tests.support.house import House
from tests.support.imports import HEAVY, imported

pytestmark = pytest.mark.xdist_group("frozen")

# their names are in annotations; before 4.2, PySpark imports NumPy
_SPARK = {"py4j", "pyspark", *({"numpy"} if installed().name in ("4.0", "4.1") else ())}
_READER = {"deltalake", "duckdb"}


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """Unpack a lake whose census and proof need no Spark."""
    (lake,) = (lake for lake in LAKES if lake.name == "growing")
    with frozen(lake.name) as house:
        yield lake.of(house)


@pytest.mark.parametrize(
    ("command", "libraries"),
    [
        ("status", {"deltalake"}),
        ("history", set()),
        ("doctor", set()),
        ("plan", {"opentelemetry"}),
        ("alerts", {"opentelemetry", "smtplib"}),
        ("census", _READER),
        ("quarantine", _READER),
        ("prove", _READER),
        ("suggest", _READER | {"numpy", "pyarrow"}),
        ("lines gold.error_log --at 2017-07-30T14:09", _READER | {"numpy", "pyarrow"}),
        ("trace '0.log:2017-07-30 14:15:00 INFO of a log that grows'", _READER | {"numpy", "pyarrow"}),
        ("report --output {root}/report.html", _READER | {"jinja2", "opentelemetry", "plotly", "smtplib"}),
    ],
)
def test_a_command_that_looks_imports_few_libraries(command: str, libraries: set[str], house: House) -> None:
    modules, code = imported(*shlex.split(command.format(root=house.root)), *house.options)
    assert modules & HEAVY <= _SPARK | libraries
    assert code == 0
