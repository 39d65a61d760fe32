"""Check a target of the bundle as a whole."""

from collections.abc import Iterator

from databricks.bundles.dashboards import Dashboard
from databricks.bundles.jobs import Job
from databricks.bundles.schemas import Schema
from databricks.bundles.volumes import Volume

from tests.support.bundle import dashboard
from tests.support.bundle.files import BundleError, Config
from tests.support.bundle.names import missing, with_parameters
from tests.support.bundle.resolve import Bundle
from tests.support.bundle.rules import broken_by, broken_by_target

# Without --clear, the jobs would use the wheel with the highest version of those in dist.
BUILD = "uv build --wheel --clear"
# What the jobs read: their configurations and notebooks.
UPLOADED = ("conf", "notebooks")
_TYPES = {"dashboards": Dashboard, "jobs": Job, "schemas": Schema, "volumes": Volume}


def problems_of(bundle: Bundle) -> list[str]:
    """Return all problems of a target of the bundle."""
    if found := list(_by_package(bundle.config["resources"])):
        return found
    found = [*_artifacts(bundle), *_uploads(bundle), *broken_by_target(bundle)]
    for name, job in bundle.jobs.items():
        found += [f"{name}: {problem}" for problem in (*_tasks(job, bundle), *broken_by(job))]
    for name, each in bundle.config["resources"].get("dashboards", {}).items():
        found += [f"{name}: {problem}" for problem in dashboard.problems(bundle, each)]
    return found


def _by_package(resources: Config) -> Iterator[str]:
    """Parse each resource with Databricks' own Python package."""
    for kind, named in resources.items():
        if kind not in _TYPES:
            yield f"resources.{kind}: no test knows this kind"
        for name, each in named.items() if kind in _TYPES else ():
            try:
                _TYPES[kind].from_dict(each)  # type: ignore[attr-defined]
            except (TypeError, ValueError) as error:
                yield f"resources.{kind}.{name}: {error}"


def _artifacts(bundle: Bundle) -> Iterator[str]:
    wheels = [each for each in bundle.config.get("artifacts", {}).values() if each.get("type") == "whl"]
    if [wheel.get("build") for wheel in wheels] != [BUILD]:
        yield f"artifacts: one wheel, made by {BUILD}, is expected"
    if not all((bundle.root / wheel.get("path", ".") / "pyproject.toml").is_file() for wheel in wheels):
        yield "artifacts: its path has no pyproject.toml"


def _uploads(bundle: Bundle) -> Iterator[str]:
    sync = bundle.config.get("sync", {})
    if tuple(sync.get("paths", ())) != UPLOADED:
        yield f"sync.paths: the jobs read {' and '.join(UPLOADED)}, and the readers of the target see what is uploaded"
    if ".env*" not in sync.get("exclude", ()):
        yield "sync.exclude: a file such as .env can hold secrets"


def _tasks(job: Config, bundle: Bundle) -> Iterator[str]:
    clusters = {each["job_cluster_key"]: each["new_cluster"] for each in job.get("job_clusters", [])}
    keys = [task["task_key"] for task in job["tasks"]]
    for task in job["tasks"]:
        key, cluster = task["task_key"], task.get("job_cluster_key")
        if cluster not in clusters:
            yield f"{key}: there is no job cluster {cluster}"
        for other in task.get("depends_on", []):
            if other["task_key"] not in keys:
                yield f"{key}: depends on {other['task_key']}, which is no task"
        environment = clusters.get(cluster, {}).get("spark_env_vars", {})
        try:
            whole = with_parameters(task, job)
        except BundleError as error:
            yield f"{key}: {error}"
            continue
        yield from (f"{key}: {problem}" for problem in missing(whole, environment, bundle))
