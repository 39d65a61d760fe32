"""Apply a target's mode and presets to the resources, as the CLI's apply_presets.go does."""

import copy
from typing import Any

from tests.support.bundle.files import BundleError, Config

_TRIGGERS = ("schedule", "continuous", "trigger")


def with_mode(config: Config, mode: str, user: str) -> Config:
    """Return the bundle with its presets, and those of development mode, applied to its resources."""
    if mode not in ("development", "production"):
        raise BundleError(f"mode {mode!r} is neither development nor production")
    out = copy.deepcopy(config)
    presets = dict(out.get("presets", {}))
    if mode == "development":
        presets = {
            "name_prefix": f"[dev {user}] ",
            "jobs_max_concurrent_runs": 4,
            "trigger_pause_status": "PAUSED",
            **presets,
            "tags": {"dev": user, **presets.get("tags", {})},
        }
    elif "root_path" not in out.get("workspace", {}):
        raise BundleError("mode production needs workspace.root_path, so that there is one deployment")
    for job in out["resources"].get("jobs", {}).values():
        _preset(job, presets)
        if "run_as" in out:
            job.setdefault("run_as", out["run_as"])
    for dashboard in out["resources"].get("dashboards", {}).values():
        dashboard["display_name"] = presets.get("name_prefix", "") + dashboard.get("display_name", "")
    for schema in out["resources"].get("schemas", {}).values():
        schema["name"] = _as_name(presets.get("name_prefix", "")) + schema.get("name", "")
    return out


def _preset(job: Config, presets: dict[str, Any]) -> None:
    job["name"] = presets.get("name_prefix", "") + job.get("name", "Untitled")
    job["tags"] = {**presets.get("tags", {}), **job.get("tags", {})}
    if "jobs_max_concurrent_runs" in presets:
        job.setdefault("max_concurrent_runs", presets["jobs_max_concurrent_runs"])
    for trigger in (job[each] for each in _TRIGGERS if each in job):
        trigger.setdefault("pause_status", presets.get("trigger_pause_status", "UNPAUSED"))


def _as_name(prefix: str) -> str:
    """Return the prefix `[dev ada] ` in the form of a schema name: dev_ada_."""
    return prefix.strip().replace("[", "").replace("]", "_").replace(" ", "_")
