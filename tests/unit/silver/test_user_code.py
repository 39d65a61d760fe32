"""Code of the user's own is found without running it, identified by its source, and imported again when it changes."""

import re
import sys
from pathlib import Path

import pydantic
import pytest

from oncelake.common.errors import ConfigError
from oncelake.silver.settings import SilverSettings
from oncelake.silver.user_code import find_code


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path.parent


def test_code_is_found_in_the_given_directories_first_then_as_python_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = written(tmp_path / "conf/own_code.py", "def f(rows): return 'beside'")
    cwd = written(tmp_path / "cwd/own_code.py", "def f(rows): return 'working directory'")
    on_path = written(tmp_path / "lib/own_code.py", "def f(rows): return 'PYTHONPATH'")
    monkeypatch.syspath_prepend(on_path)
    assert find_code("own_code:f", [beside, cwd]).function()("") == "beside"
    assert find_code("own_code:f", [tmp_path, cwd]).function()("") == "working directory"
    assert find_code("own_code:f", [tmp_path]).function()("") == "PYTHONPATH"
    assert find_code("own_code:f", [beside, cwd]).function()("") == "beside"


def test_the_directory_is_searched_only_while_the_code_is_imported_or_called(tmp_path: Path) -> None:
    written(tmp_path / "own_helper.py", "value = 1")
    written(tmp_path / "own_code.py", "def f(rows):\n    import own_helper\n    return own_helper.value")
    before = [*sys.path]
    assert find_code("own_code:f", [tmp_path]).function()("") == 1
    assert sys.path == before
    with pytest.raises(ConfigError, match="there is no module own_helper in PYTHONPATH"):
        find_code("own_helper:value")


def test_finding_runs_no_code_and_importing_does(tmp_path: Path) -> None:
    written(tmp_path / "fleet/__init__.py", "raise ValueError('two\\nlines')")
    written(tmp_path / "fleet/columns.py", "def f(rows): return rows")
    found = find_code("fleet.columns:f", [tmp_path])
    assert found.identity.transform == "fleet.columns:f"
    assert found.identity.distribution is None
    with pytest.raises(ConfigError, match=r"fleet.columns:f: .*columns.py cannot be imported: ValueError: two lines$"):
        found.function()


def test_the_identity_is_the_source_of_the_module_or_of_its_whole_package(tmp_path: Path) -> None:
    written(tmp_path / "own_code.py", "def f(rows): return 1")
    written(tmp_path / "beside.py", "")
    first = find_code("own_code:f", [tmp_path]).identity
    written(tmp_path / "beside.py", "other = 1")
    assert find_code("own_code:f", [tmp_path]).identity == first
    written(tmp_path / "own_code.py", "def f(rows): return 2")
    assert find_code("own_code:f", [tmp_path]).identity != first

    written(tmp_path / "fleet/__init__.py", "")
    written(tmp_path / "fleet/helper/__init__.py", "")
    written(tmp_path / "fleet/columns.py", "def f(rows): return 1")
    before = find_code("fleet.columns:f", [tmp_path]).identity
    written(tmp_path / "fleet/helper/__init__.py", "changed = 1")
    assert find_code("fleet.columns:f", [tmp_path]).identity != before
    (tmp_path / "fleet/helper").rename(tmp_path / "fleet/other")
    assert find_code("fleet.columns:f", [tmp_path]).identity != before


def test_changed_code_is_imported_again_in_one_process(tmp_path: Path) -> None:
    written(tmp_path / "fleet/__init__.py", "")
    written(tmp_path / "fleet/helper.py", "value = 1")
    written(tmp_path / "fleet/columns.py", "from fleet.helper import value\ndef f(rows): return value")
    assert find_code("fleet.columns:f", [tmp_path]).function()("") == 1
    written(tmp_path / "fleet/helper.py", "value = 1 + 1")
    assert find_code("fleet.columns:f", [tmp_path]).function()("") == 2


def test_code_that_changes_between_finding_and_importing_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "own_code.py", "def f(rows): return 1")
    found = find_code("own_code:f", [tmp_path])
    written(tmp_path / "own_code.py", "def f(rows): return 1 + 1")
    with pytest.raises(ConfigError, match="has changed since this start; start again"):
        found.function()


def test_the_installed_distribution_and_its_version_are_part_of_the_identity() -> None:
    assert find_code("pydantic.main:BaseModel").identity.distribution == f"pydantic {pydantic.VERSION}"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own_code:g", r"silver.transform own_code:g: .*own_code.py has no g; name a function of this file"),
        ("own_code:text", r"own_code.py is 'no function', not a function"),
        ("own_code.inner:f", r"there is no module own_code.inner in /.*, PYTHONPATH and the installed packages"),
        ("nowhere:f", r"there is no module nowhere in /.*correct its name, or put it there"),
        ("math:sqrt", r"the module math has no Python source file"),
    ],
)
def test_code_that_is_not_there_is_refused_in_one_line(tmp_path: Path, name: str, said: str) -> None:
    written(tmp_path / "own_code.py", "text = 'no function'")
    with pytest.raises(ConfigError, match=said) as refused:
        find_code(name, [tmp_path]).function()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["fleet", "fleet.columns", "fleet/columns.py:f", ":f", "fleet:", "fleet:f()", "a b:f"])
def test_a_name_of_another_form_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=re.escape("must be package.module:function, such as fleet.columns:enrich")):
        SilverSettings(transform=name)
