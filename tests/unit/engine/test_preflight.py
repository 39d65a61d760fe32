"""A gold table is looked at by the declaration that it was built by."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelake.common.errors import ConfigError
from oncelake.engine.chain import Chain
from oncelake.engine.graph import DECLARATION
from oncelake.engine.preflight import all_built_by, built_by
from oncelake.gold.declaration import GoldTable

DECLARED = GoldTable(every="1 minute", measures={"lines": "count"})
BUILT = GoldTable(every="1 hour", measures={"number": "count"})


def chain(built: dict[str, Any] | None) -> Chain:
    properties = {} if built is None else {DECLARATION: json.dumps(built)}
    log = SimpleNamespace(properties=lambda: properties)
    settings = SimpleNamespace(gold={"errors": DECLARED})
    return cast(Chain, SimpleNamespace(settings=settings, commit_log=lambda _: log))


def test_a_table_has_the_declaration_that_it_was_built_by() -> None:
    assert all_built_by(chain(None)) == {"errors": DECLARED}
    assert all_built_by(chain(BUILT.model_dump(exclude_none=True))) == {"errors": BUILT}


def test_a_declaration_that_this_version_does_not_accept_is_named() -> None:
    built = {"every": "1 hour", "measures": {"middle": "median(x)"}}
    with pytest.raises(ConfigError, match=r"gold.errors was built as .*median.*oncelake rebuild gold.errors"):
        built_by(chain(built), "errors")
