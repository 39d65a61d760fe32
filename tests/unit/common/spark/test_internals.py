"""Java classes of ours that do not fit a Spark, our own or a given one, are named with what that costs."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from oncelake.common.spark import compiled, internals, jars
from oncelake.common.spark.internals import missing_classes
from tests.support.own_jar import NAMED, WHY, write_without


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jars, "cache_home", lambda: tmp_path)
    monkeypatch.setattr(internals, "is_given", lambda: False)
    return tmp_path


def test_nothing_is_missing_before_the_first_use_and_with_all_classes() -> None:
    assert missing_classes() == []
    write_without()
    assert missing_classes() == []


def test_each_class_that_was_left_out_is_named_with_the_reason_and_the_cost() -> None:
    write_without(["Mask", "MaskEdits", "BoundedRows"])
    assert missing_classes() == [
        f"oncelake's Java class BoundedRows is not used ({WHY}): Spark itself commits each batch, in 0.5 to 3 s",
        f"oncelake's Java class Mask is not used ({WHY}): source.mask is refused",
    ]


def test_classes_that_could_not_be_compiled_are_one_warning() -> None:
    compiled.jar().with_suffix(".failed").write_text("no space left")
    (said,) = missing_classes()
    assert said.startswith(
        "oncelake's Java classes could not be compiled (no space left). Without them: each local file"
    )
    assert all(compiled.CLASSES[name] in said for name in NAMED)
    write_without()
    assert missing_classes() == []


def test_every_class_says_what_happens_without_it_or_is_used_by_one_that_does() -> None:
    texts = {name: Path(compiled.__file__).with_name(f"{name}.java").read_text() for name in compiled.CLASSES}
    helpers = [name for name in compiled.CLASSES if name not in NAMED]
    for helper in helpers:
        assert any(helper in texts[name] for name in compiled.CLASSES if name != helper), helper


def fits(_: object) -> None:
    """Return None: nothing is known against a class."""


def given(monkeypatch: pytest.MonkeyPatch, has: Callable[[str], bool], unfit: str = "") -> None:
    """Replace the given session by one with some of our classes; one class calls what this Spark lacks."""

    def load(name: str) -> Any:
        def methods() -> None:
            if name == unfit:
                raise Py4JError("java.lang.NoClassDefFoundError: a/Moved\nTrace:\n")

        return SimpleNamespace(getDeclaredMethods=methods)

    loader = SimpleNamespace(loadClass=load)
    thread = SimpleNamespace(currentThread=lambda: SimpleNamespace(getContextClassLoader=lambda: loader))
    view = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(Thread=thread)))
    monkeypatch.setattr(internals, "is_given", lambda: True)
    monkeypatch.setattr(SparkSession, "getActiveSession", object)
    monkeypatch.setattr(internals, "jvm", lambda _: view)
    monkeypatch.setattr(internals, "has_class", lambda _, name: has(name))
    monkeypatch.setattr(internals, "why_not_prepared", fits)
    monkeypatch.setattr(internals, "why_not_woken", fits)


def test_a_given_session_without_the_classes_gets_one_warning_but_not_on_databricks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given(monkeypatch, lambda _: False)
    (said,) = missing_classes()
    assert "are not in this Spark session. Without them: each local file" in said
    assert f"Start it with --jars {compiled.jar()}" in said
    monkeypatch.setattr(internals, "on_databricks", lambda: True)
    assert missing_classes() == []


def test_a_class_that_a_given_session_cannot_link_or_does_not_have_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, lambda name: name != "oncelake.Topics", unfit="oncelake.RecordFormat")
    topics, record_format = missing_classes()
    assert topics.startswith("oncelake's Java class Topics is not used (this session does not have it): a Kafka")
    assert "RecordFormat is not used (" in record_format
    assert "NoClassDefFoundError: a/Moved" in record_format
    given(monkeypatch, lambda _: True)
    monkeypatch.setattr(internals, "why_not_woken", lambda _: "no clock")
    (woken,) = missing_classes()
    assert woken.startswith("oncelake's Java class WakeableClock is not used (no clock): a stage reads new rows")


def test_before_a_given_spark_has_a_session_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, lambda _: False)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    assert missing_classes() == []
