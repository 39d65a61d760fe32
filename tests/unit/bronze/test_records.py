"""Records of several lines are refused where they could not be read, and a wrong declaration by its key."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from oncelake.bronze import records
from oncelake.bronze.records import Records, why_not_read
from oncelake.common.models import fingerprint
from oncelake.common.spark import jars
from oncelake.common.spark.compiled import jar
from oncelake.silver.parsing.format import LogFormat
from tests.support.own_jar import WHY, write_without

FORMAT = {"pattern": "(?<time>.*) (?<level>.*) (?<message>.*)", "time": "iso8601"}


def session(master: str, **confs: str) -> Any:
    conf = SimpleNamespace(get=lambda key, default: confs.get(key.rsplit(".", 1)[-1], default))
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, getConf=lambda: conf))


@dataclass(frozen=True)
class Session:
    """A Spark session, as far as it matters here."""

    auto_loader: bool = False
    has_class: bool = True
    given: bool = False
    spark: Any = field(default_factory=lambda: session("local[2]"))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Session(auto_loader=True, given=True), "Auto Loader"),
        (Session(has_class=False), "run: python -m oncelake.set_up"),
        (Session(has_class=False, given=True), f"--jars {jar()}"),
        (Session(given=True, spark=session("spark://a:7077")), f"--jars {jar()}"),
        (Session(given=True, spark=session("spark://a:7077", jars=f"file:/x/{jar().name},b.jar")), None),
        (Session(given=True, spark=session("yarn", extraClassPath=f"/opt/{jar().name}")), None),
        (Session(), None),
    ],
)
def test_a_session_that_cannot_read_records_is_refused(
    monkeypatch: pytest.MonkeyPatch, kind: Session, said: str | None
) -> None:
    monkeypatch.setattr(records, "has_auto_loader", lambda _: kind.auto_loader)
    monkeypatch.setattr(records, "has_class", lambda *_: kind.has_class)
    monkeypatch.setattr(records, "is_given", lambda: kind.given)
    told = why_not_read(kind.spark)
    assert told is None if said is None else said in (told or "")


def test_a_spark_that_the_reader_does_not_fit_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "cache_home", lambda: tmp_path)
    monkeypatch.setattr(records, "has_auto_loader", lambda _: False)
    monkeypatch.setattr(records, "has_class", lambda *_: False)
    monkeypatch.setattr(records, "is_given", lambda: False)
    write_without(["RecordFormat"])
    assert f"use another version of PySpark, the class does not fit this one: {WHY}" in str(
        why_not_read(session("local[2]"))
    )


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({}, "starts"),
        ({"starts": ""}, "starts"),
        ({"starts": "^x", "max_lines": 0}, "max_lines"),
        ({"starts": "^x", "max_bytes": "2 GiB"}, "max_bytes"),
        ({"starts": "^x", "ends": "y"}, "ends"),
    ],
)
def test_a_wrong_declaration_is_refused_by_its_key(declared: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Records.model_validate(declared)


def test_a_field_that_came_later_changes_the_fingerprint_only_if_it_is_set() -> None:
    plain = LogFormat.model_validate(FORMAT)
    assert plain.model_dump_json() == LogFormat.model_validate({**FORMAT, "record": None}).model_dump_json()
    assert "record" not in plain.model_dump_json()
    assert "logfmt" not in plain.model_dump_json()
    assert fingerprint(plain) != fingerprint(LogFormat.model_validate({**FORMAT, "record": {"starts": "^x"}}))
