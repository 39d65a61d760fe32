"""Check oncelake's own rules for a job, which the schema does not have."""

from collections.abc import Iterator

from tests.support.bundle.files import Config
from tests.support.bundle.resolve import Bundle

# those that oncelake warns of in no run: 17.3 LTS, 18 LTS and 19
RUNTIMES = ("17.3.x-scala2.13", "18.x-scala2.13", "19.x-scala2.13")
DEDICATED = "DATA_SECURITY_MODE_DEDICATED"


def broken_by_target(bundle: Bundle) -> Iterator[str]:
    """Yield the rules that a target's jobs break together."""
    running = [name for name, job in bundle.jobs.items() if _is_writer(job) and _status(job) == "UNPAUSED"]
    if bundle.mode == "development" and (
        awake := [name for name, job in bundle.jobs.items() if _status(job) != "PAUSED"]
    ):
        yield f"{', '.join(awake)}: not paused in development"
    if bundle.mode == "production" and len(running) != 1:
        yield f"one job writes the lake, not {len(running)} ({', '.join(running) or 'all are paused'})"


def broken_by(job: Config) -> Iterator[str]:
    """Yield the rules that one job breaks."""
    for cluster in job.get("job_clusters", []):
        yield from (f"cluster {cluster['job_cluster_key']}: {problem}" for problem in _cluster(cluster["new_cluster"]))
    if _is_writer(job):
        yield from _writer(job)
    yield from (f"{key}: its failure would not fail the run" for key in _unheard(job["tasks"]))
    if not all("on_failure" in job.get(each, {}) for each in ("email_notifications", "webhook_notifications")):
        yield "nobody is told of a failure"
    if job.get("queue") != {"enabled": False}:
        yield "queue: unset, the CLI sets true, and a run that is due during another one waits for it"
    if job.get("notification_settings", {}).get("no_alert_for_canceled_runs"):
        # https://docs.databricks.com/jobs/continuous.html: after the last retry of a task its run is canceled
        yield "no_alert_for_canceled_runs: a run whose retries failed is canceled, and nobody is told"


def _cluster(cluster: Config) -> Iterator[str]:
    if cluster.get("spark_version") not in RUNTIMES:
        yield f"spark_version {cluster.get('spark_version')}: expected is {' or '.join(RUNTIMES)}"
    if cluster.get("data_security_mode") != DEDICATED:
        yield f"data_security_mode {cluster.get('data_security_mode')}: queries need a session each, by {DEDICATED}"
    if "autoscale" in cluster or not isinstance(cluster.get("num_workers"), int) or cluster["num_workers"] < 1:
        yield "num_workers: a fixed number, 1 or more, is needed"


def _writer(job: Config) -> Iterator[str]:
    if job.get("max_concurrent_runs") != 1:
        yield f"max_concurrent_runs {job.get('max_concurrent_runs')}: two runs would share the checkpoints"
    if len(job["tasks"]) != 1:
        yield "one task with every stage is expected"
    if "continuous" not in job:
        return
    if job["continuous"].get("task_retry_mode") != "ON_FAILURE":
        yield "continuous.task_retry_mode: unset it is NEVER, and ON_FAILURE is needed"
    if any("max_retries" in task or "depends_on" in task for task in job["tasks"]):
        yield "a continuous job has no retry policy and no dependencies"
    metrics = {rule["metric"].rpartition("_")[0] for rule in job.get("health", {}).get("rules", [])}
    if missing := {"STREAMING_BACKLOG", "RUN_DURATION"} - metrics:
        yield f"health: no rule on {', '.join(sorted(missing))}"


def _unheard(tasks: list[Config]) -> Iterator[str]:
    """Yield the tasks whose failure reaches no last task: a run's result is that of its last tasks."""
    after = {
        task["task_key"]: [
            each["task_key"]
            for each in tasks
            if {"task_key": task["task_key"]} in each.get("depends_on", [])
            and each.get("run_if", "ALL_SUCCESS") == "ALL_SUCCESS"
        ]
        for task in tasks
    }
    needed = {other["task_key"] for task in tasks for other in task.get("depends_on", [])}

    def heard(key: str) -> bool:
        return key not in needed or any(heard(each) for each in after[key])

    yield from (key for key in after if not heard(key))


def _is_writer(job: Config) -> bool:
    return any(task.get("python_wheel_task", {}).get("parameters", [""])[0] == "run" for task in job["tasks"])


def _status(job: Config) -> str | None:
    """Return the status of a job's trigger; None for a job that is started only by hand."""
    return next((job[each]["pause_status"] for each in ("continuous", "schedule", "trigger") if each in job), None)
