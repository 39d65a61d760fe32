"""Check that everything a task names exists: files, notebooks, the wheel's entry point, its command line."""

import importlib
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oncelake.lab.notebook_place import split_sets
from tests.support.bundle.command_line import on_disk, parsed, secrets_in_the_open, settings_of
from tests.support.bundle.files import BundleError, Config
from tests.support.bundle.resolve import Bundle

_FILES = ("notebook_path", "python_file", "requirements")
_PARAMETER = re.compile(r"\{\{job\.parameters\.(\w+)\}\}")


def missing(task: Config, environment: dict[str, str], bundle: Bundle) -> Iterator[str]:
    """Yield what a task names that does not exist or would not be accepted."""
    yield from _files(task, bundle)
    if "python_wheel_task" in task:
        yield from _wheel(task, bundle)
        yield from _command(task["python_wheel_task"].get("parameters", []), environment, bundle)
    elif "notebook_task" in task:
        yield from _command(["status", *told(task)], environment, bundle)


def with_parameters(task: Config, job: Config) -> Config:
    """Return a task with the default of each job parameter in its place, as a run without `--params` has it.

    Raises:
        BundleError: the job has no such parameter.
    """
    values = {each["name"]: each["default"] for each in job.get("parameters", [])}

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [filled(inner) for inner in value]
        return _PARAMETER.sub(default, value) if isinstance(value, str) else value

    def default(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise BundleError(f"there is no job parameter {found[1]}")
        return str(values[found[1]])

    out: Config = filled(task)
    return out


def told(task: Config) -> list[str]:
    """Return the configuration and settings of a task as flags; a notebook gets them by its fields."""
    if "notebook_task" in task:
        fields = task["notebook_task"].get("base_parameters", {})
        return [f"--conf={fields.get('conf', '')}", *(f"--set={each}" for each in split_sets(fields.get("sets", "")))]
    return [each for each in task["python_wheel_task"]["parameters"] if each.startswith(("--conf", "--set"))]


def _files(task: Config, bundle: Bundle) -> Iterator[str]:
    """Check the files that a task names, and a notebook's parameters in the notebook."""
    for key, value in _strings(task):
        path = Path(on_disk(value, bundle.file_path, bundle.root)) if bundle.file_path in value else bundle.root / value
        if key in _FILES and not path.is_file():
            yield f"{key}: there is no file {value}"
    notebook = task.get("notebook_task", {})
    path = bundle.root / notebook.get("notebook_path", "")
    if path.suffix == ".ipynb" and path.is_file():
        text = "".join("".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"])
        for name in notebook.get("base_parameters", {}):
            if name not in text:
                yield f"the notebook has no parameter {name}"


def _wheel(task: Config, bundle: Bundle) -> Iterator[str]:
    wheel = task["python_wheel_task"]
    project = tomllib.loads((bundle.root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if wheel["package_name"] != project["name"]:
        yield f"package_name {wheel['package_name']}: the wheel is of {project['name']}"
    if {"whl": "dist/*.whl"} not in task.get("libraries", []):
        yield "libraries: without ../../dist/*.whl the wheel is not there"
    if not any("requirements" in library for library in task.get("libraries", [])):
        yield "libraries: without requirements.txt each start of a cluster gets the newest versions"
    if not _is_callable(project["scripts"].get(wheel["entry_point"])):
        yield f"entry_point {wheel['entry_point']}: pyproject.toml declares no such script"


def _command(parameters: list[str], environment: dict[str, str], bundle: Bundle) -> Iterator[str]:
    """Parse a command line as oncelake does, and compare its lake with the bundle's own."""
    for name in secrets_in_the_open(environment):
        yield f"spark_env_vars.{name}: a secret is given by {{{{secrets/scope/key}}}}"
    try:
        _, told_by_flags = parsed([on_disk(parameter, bundle.file_path, bundle.root) for parameter in parameters])
        told = settings_of(told_by_flags, environment)
    except BundleError as error:
        yield str(error)
        return
    (volume,) = bundle.config["resources"]["volumes"].values()
    place = f"/Volumes/{volume['catalog_name']}/{volume['schema_name']}/{volume['name']}"
    if told.checkpoints != place:
        yield f"checkpoints {told.checkpoints}: the bundle's volume is {place}"
    for layer, schema in bundle.config["resources"]["schemas"].items():
        if (told.lake.catalog, dict(told.lake.schemas).get(layer)) != (schema["catalog_name"], schema["name"]):
            yield f"lake: {layer} is not the bundle's schema {schema['catalog_name']}.{schema['name']}"


def _is_callable(script: str | None) -> bool:
    module, _, name = (script or "").partition(":")
    return bool(module) and callable(getattr(importlib.import_module(module), name, None))


def _strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _strings(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner, key)
    elif isinstance(value, str):
        yield key, value
