"""The user's own code adds columns to silver while a lake lives: every line counts once, and gold measures them."""

import json
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError, StageError
from tests.support.crashing import crashed
from tests.support.house import House
from tests.support.writers import each_writer

pytestmark = pytest.mark.spark

BY_WORDS: dict[str, Any] = {
    "every": "1 day",
    "where": "words > 1",
    "by": {"words": "words"},
    "measures": {"lines": "count", "longest": "max(size)"},
}
OLD = [b"2017-07-30 14:09:08 ERROR one", b"broken"]
NEW = [
    b"2017-07-30 14:09:08 ERROR one two",
    b"",
    b"2017-07-30 14:09:09 INFO one two",
    b"2017-07-31 00:00:00 WARN three",
]
SIZE = "F.length('message').cast('decimal(9,2)')"
WORDS = "F.size(F.split('message', ' '))"


def declare(house: House, *, gold: bool = False, **columns: str) -> None:
    """Write the user's own code beside the configuration, and a gold table that measures its columns."""
    added = "".join(f".withColumn({name!r}, {text})" for name, text in columns.items())
    imports = "from pyspark.sql import functions as F\nfrom pyspark.sql.functions import udf\n"
    (house.conf.parent / "own_code.py").write_text(f"{imports}def add(rows):\n    return rows{added}\n")
    kept = [setting for setting in house.sets if not setting.startswith(("silver.transform", "gold.by_words"))]
    by_words = [f"gold.by_words={json.dumps(BY_WORDS)}"] if gold else []
    house.sets = [*kept, *(["silver.transform=own_code:add"] if columns else []), *by_words]


def silver_values(house: House, *names: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in names) for row in house.rows("silver/access_log")), key=str)


def proven(house: House, spark: SparkSession) -> None:
    assert [str(link) for link in house.lakehouse(spark).prove(full=True).links if not link.holds] == []


@each_writer
def test_own_columns_are_added_measured_and_changed(house: House, spark: SparkSession, small_batch: str) -> None:
    house.sets += [f"run.small_batch={small_batch}"]
    declare(house)
    house.write("old.log", *OLD)
    house.run(spark)

    declare(house, gold=True, words=WORDS, size=SIZE)
    house.write("new.log", *NEW)
    house.run(spark)
    pairs = [(value[0], str(value[1])) for value in silver_values(house, "words", "size")]
    assert pairs == [(1, "5.00"), (2, "7.00"), (2, "7.00"), (None, "None")]
    assert house.size("silver/quarantine") == 2
    assert [(row["lines"], str(row["longest"])) for row in house.rows("gold/by_words")] == [(2, "7.00")]

    declare(house, gold=True, words="F.lit(9)", size=SIZE)
    house.write("last.log", OLD[0])
    house.run(spark)
    assert sorted((row["words"], row["lines"]) for row in house.rows("gold/by_words")) == [(2, 2), (9, 1)]
    newest, middle, oldest = house.lakehouse(spark).history("silver.access_log")
    assert newest.rules is not None
    assert middle.rules is not None
    assert oldest.rules is not None
    ours = [[rule for rule in span.rules or () if "transform" in rule] for span in (newest, middle, oldest)]
    assert [len(our) for our in ours] == [1, 1, 0]
    assert ours[0][0].keys() == {"transform", "source"}
    assert ours[0] != ours[1]
    if small_batch != "0":
        last = sorted((house.table("silver/access_log") / "_delta_log").glob("*.json"))[-1]
        assert '"engineInfo":"delta-rs' in last.read_text()
    proven(house, spark)


def test_a_half_written_batch_is_finished_by_the_code_that_began_it(house: House, spark: SparkSession) -> None:
    declare(house, words=WORDS)
    house.write("a.log", *OLD)
    with (
        crashed(spark, f"silver/quarantine/_delta_log/{1:020}.json", before=True),
        pytest.raises((StageError, Py4JJavaError)),
    ):
        house.run(spark)
    declare(house, words="F.lit(999)")
    with pytest.raises(StageError, match=r"silver\.deduplicate changed since this batch began.*Put the old valu"):
        house.run(spark)
    declare(house, words=WORDS)
    house.run(spark)
    declare(house, words="F.lit(999)")
    house.write("b.log", *OLD)
    house.run(spark)
    assert silver_values(house, "words") == [(1,), (999,)]
    proven(house, spark)


def test_a_batch_whose_lines_are_all_refused_goes_to_quarantine(house: House, spark: SparkSession) -> None:
    declare(house, words=WORDS)
    house.write("a.log", b"broken", b"broken as well")
    house.run(spark)
    assert (house.size("silver/access_log"), house.size("silver/quarantine")) == (0, 2)
    house.write("b.log", *OLD)
    house.run(spark)
    assert silver_values(house, "words") == [(1,)]
    proven(house, spark)


def test_another_type_is_refused_and_a_rebuild_or_a_replay_makes_the_rows_again(
    house: House, spark: SparkSession
) -> None:
    declare(house, gold=True, words=WORDS, size=SIZE)
    house.write("a.log", *NEW, b"30.07.2017 14:09:08 ERROR one two")
    house.run(spark)
    before = house.versions()
    declare(house, gold=True, words=f"{WORDS}.cast('string')", size=SIZE)
    with pytest.raises(ConfigError, match=r"silver.transform gives words the type string, but .*rebuild silver"):
        house.run(spark)
    declare(house)
    declare(house, gold=True, size=SIZE)
    with pytest.raises(ConfigError, match=r"gold.by_words.where: 'words > 1' names `words`"):
        house.run(spark)
    assert house.versions() == before

    declare(house, gold=True, words=f"{WORDS} + F.lit(10)", size=SIZE)
    own = house.root / "lenient.yaml"
    own.write_text(
        "pattern: '^(?<time>\\S+ \\S+) (?<level>\\w+) (?<message>.*)$'\n"
        "time: [yyyy-MM-dd HH:mm:ss, dd.MM.yyyy HH:mm:ss]\n"
    )
    house.sets += [f"source.format={own}"]
    house.tell(spark, "quarantine", "replay")
    assert silver_values(house, "words") == [(1,), (12,), (2,), (2,)]
    house.rebuild(spark, "silver")
    assert silver_values(house, "words") == [(11,), (12,), (12,), (12,)]
    assert [(row["words"], row["lines"]) for row in sorted(house.rows("gold/by_words"), key=str)] != []
    proven(house, spark)


def test_an_error_in_a_python_function_stops_silver_with_one_line(house: House, spark: SparkSession) -> None:
    declare(house, words="udf(lambda text: int(text), 'int')('message')")
    house.write("a.log", *OLD)
    with pytest.raises(
        StageError, match=r"silver stopped in batch 0: line \d+ of .*own_code.py raised ValueError: inv"
    ):
        house.run(spark)
    declare(house, words="udf(lambda text: len(text.split()), 'int')('message')")
    house.run(spark)
    assert silver_values(house, "words") == [(1,)]


def test_commands_show_and_refuse_own_code(house: House, spark: SparkSession) -> None:
    declare(house, words=WORDS)
    house.write("a.log", *OLD)
    said = house.tell(spark, "format", "try", str(house.logs / "a.log"))
    assert "words=1" in said
    suites = house.conf.parent / "expectations"
    suites.mkdir()
    rule = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "words"}, "meta": {}}
    suite = {"name": "silver.access_log", "expectations": [rule]}
    (suites / "silver.access_log.json").write_text(json.dumps(suite))
    with pytest.raises(ConfigError, match=r"silver.transform adds words to lines that have passed the rules"):
        house.run(spark)
    house.sets += ["quality.expectations=none"]
    declare(house, words="F.rand()")
    exit_code, said = house.told(spark, "run", "--once")
    assert (exit_code, "which gives another value at every run" in said) == (2, True)
    declare(house, words="F.lit(__import__('datetime').date.today())")
    for command, code in ((("run", "--once"), 2), (("doctor",), 1)):
        said = house.tell(spark, *command, expect=code)
        assert "columns must not depend on the clock or the machine's zone" in said
    declare(house, words=WORDS)
    (house.conf.parent / "own_code.py").unlink()
    assert "there is no module own_code in" in house.tell(spark, "status", expect=2)
