"""A sink that cannot be used is refused in one line that says why, and shows no option."""

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from oncelake.common.errors import ConfigError
from oncelake.serving.load import make_sink
from oncelake.serving.settings import ServingSettings
from tests.support.sinks import Together

OWN = "tests.support.sinks:"


def test_a_class_is_made_with_its_options() -> None:
    sink = make_sink(f"{OWN}Together", "error_log", {"file": "x"})
    assert isinstance(sink, Together)
    assert (sink.name, sink.options, str(sink)) == ("error_log", {"file": "x"}, "tests.support.sinks:Together")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Redis", "a sink is named module:Class"),
        ("no.such.module:Redis", "there is no module no.such.module; install its package into this Python"),
        (f"{OWN}Nothing", "tests.support.sinks has no class Nothing"),
        (f"{OWN}NOT_A_SINK", "NOT_A_SINK is not a class derived from oncelake.Sink"),
        ("pathlib:Path", "Path is not a class derived from oncelake.Sink"),
        (f"{OWN}Incomplete", "Incomplete lacks empty, write"),
        (f"{OWN}Undeclared", "Undeclared does not say how it is made safe"),
        ("oncelake.serving.sinks.parquet:ParquetStores", r"serving\.options has no store\.NAME"),
        ("oncelake.serving.sinks.cassandra:Cassandra", r"needs serving\.options\.hosts, which is not set"),
        ("oncelake.serving.sql:SqlSink", r"needs serving\.options\.url, which is not set"),
    ],
)
def test_a_class_that_is_no_sink_is_refused_with_the_reason(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as error:
        make_sink(name, "error_log", {})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import no_such_thing", "there is no module broken_sink (it needs no_such_thing, which is not installed)"),
        ("raise RuntimeError('one\\ntwo')", "broken_sink cannot be imported: RuntimeError: one"),
        ("def", "broken_sink cannot be imported: SyntaxError"),
    ],
)
def test_a_module_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    (tmp_path / "broken_sink.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("broken_sink", None)
    with pytest.raises(ConfigError) as error:
        make_sink("broken_sink:Sink", "error_log", {})
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_class_that_refuses_its_options_shows_none_of_them() -> None:
    with pytest.raises(ConfigError, match=r"cannot be made from serving\.options: ValueError") as error:
        make_sink("oncelake.serving.sql:SqlSink", "error_log", {"url": "oracle://user:secret-word@host/x"})
    assert "secret-word" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sink": "a:B", "url": "sqlite:////x.db"}, r"serving\.url and serving\.sink are both set"),
        ({"sink": "nonsense"}, "must be module:Class"),
        ({"sink": "a:B; import os"}, "must be module:Class"),
        ({"options": {"a": "secret-word"}}, r"set serving\.sink, or remove them"),
        ({"sink": "a:B", "mode": "transactional"}, r"use serving\.mode idempotent"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said) as error:
        ServingSettings.model_validate(given)
    assert "secret-word" not in str(error.value)


def test_options_are_text_and_never_shown() -> None:
    settings = ServingSettings.model_validate(
        {
            "sink": "a:B",
            "options": {"password": "secret-word", "port": 9042, "tls": True, "store": {"a": "/a", "b": "/b"}},
        }
    )
    assert "secret-word" not in repr(settings) + str(settings) + settings.model_dump_json()
    assert settings.sink_class() == (
        "a:B",
        {"password": "secret-word", "port": "9042", "tls": "true", "store.a": "/a", "store.b": "/b"},
    )


def test_an_option_can_name_a_secret_of_databricks() -> None:
    settings = ServingSettings.model_validate({"sink": "a:B", "options": {"password": "{{secrets/scope/key}}"}})
    with pytest.raises(ConfigError, match="not a Databricks cluster"):
        settings.sink_class()
