"""An editor accepts what oncelake accepts, and marks what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from oncelake.cli.app import app
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.configuration import load
from oncelake.engine.settings import Settings


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    """Return what `oncelake schema` prints, as a validator."""
    result = CliRunner().invoke(app, ["schema"])
    assert result.exit_code == 0
    printed = json.loads(result.output)
    Draft202012Validator.check_schema(printed)
    return Draft202012Validator(printed)


def test_the_schema_has_every_section_and_says_what_a_key_means(schema: Draft202012Validator) -> None:
    assert schema.schema["properties"].keys() == Settings.model_fields.keys()
    text = json.dumps(schema.schema)
    assert "how often a run looks for new input in the source" in text


@pytest.mark.parametrize("name", ["local", "dev", "prod"])
def test_a_shipped_configuration_fits_the_schema(schema: Draft202012Validator, name: str) -> None:
    schema.validate(yaml.safe_load((shipped_conf() / f"{name}.yaml").read_text()))


PLACES = "source: {path: logs}\nlake: {root: lake}\n"


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("run: {trigger: 5 seconds}", True),
        ("run: {trigger: soon}", False),
        ("run: {small_batch: 32 MiB}", True),
        ("metrics: {port: 9464}", True),
        ("metrics: {port: 70000}", False),
        ("gold: {n: {every: 1 minute, measures: {n: count}}}", True),
        ("gold: {n: {every: 1 minute}}", False),
        ("quality: {gate: {age: {warn: 1 hour}}}", True),
        ("spark: {conf: {spark.a: true, spark.b: {c: 1}}}", True),
        ("checkpoints: /data/checkpoints", True),
        ("serving: {mode: twice}", False),
        ("sorce: {}", False),
        ("run: {triger: 1 second}", False),
    ],
)  # fmt: skip
def test_the_schema_and_oncelake_agree(schema: Draft202012Validator, tmp_path: Path, text: str, accepted: bool) -> None:
    conf = tmp_path / "conf.yaml"
    conf.write_text(f"{PLACES}{text}\n")
    value: Any = yaml.safe_load(conf.read_text())
    assert schema.is_valid(value) == accepted
    if accepted:
        load(conf)
    else:
        with pytest.raises(Exception, match="with environment and --set"):
            load(conf)
