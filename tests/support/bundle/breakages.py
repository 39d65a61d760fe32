"""Define the ways to break the bundle, and the error that each must cause."""

from dataclasses import dataclass
from functools import partial

TARGETS = ("dev", "prod")


@dataclass(frozen=True)
class Breakage:
    """A change to one file, and the error that it must cause.

    Attributes:
        file: below the repository.
        old: the text that is replaced.
        new: its replacement.
        said: a part of the expected error.
        targets: the targets that it breaks.
        by_schema: whether only the schema of the CLI detects it.
    """

    file: str
    old: str
    new: str
    said: str
    targets: tuple[str, ...] = TARGETS
    by_schema: bool = False


_in_prod = partial(Breakage, targets=("prod",))  # only prod has the dashboard
MAIN, CONTINUOUS, DRAIN, AUDIT, DASHBOARD, DRAWN = (
    "databricks.yml",
    "conf/bundle/continuous.job.yml",
    "conf/bundle/drain.job.yml",
    "conf/bundle/audit.job.yml",
    "conf/bundle/oncelake.dashboard.yml",
    "conf/bundle/oncelake.lvdash.json",
)
LOOK = "conf/bundle/notebooks.job.yml"
NOTEBOOK = "notebook_task: {notebook_path: ../../notebooks/gone.ipynb}\n          python_wheel_task:"
BREAKAGES = {
    "misspelt root key": Breakage(
        MAIN, "\nartifacts:", "\nartefacts:", "artefacts: there is no such key", by_schema=True
    ),
    "misspelt target key": Breakage(MAIN, "default: true", "defalt: true", "defalt", by_schema=True),
    "misspelt variable key": Breakage(MAIN, "type: complex", "typ: complex", "type: complex"),
    "misspelt job key": Breakage(CONTINUOUS, "max_concurrent_runs", "max_concurent_runs", "max_concurent_runs"),
    "misspelt job key, by schema": Breakage(DRAIN, "timeout_seconds", "timeout_secs", "timeout_secs", by_schema=True),
    "misspelt task key": Breakage(AUDIT, "run_if: ALL_DONE", "runif: ALL_DONE", "runif"),
    "misspelt cluster key": Breakage(MAIN, "node_type_id:", "node_typ_id:", "node_typ_id"),
    "misspelt cluster key, by schema": Breakage(MAIN, "num_workers:", "workers:", "workers", by_schema=True),
    "misspelt schema key": Breakage("conf/bundle/gold.schema.yml", "catalog_name", "catalog", "catalog"),
    "misspelt volume key": Breakage("conf/bundle/checkpoints.volume.yml", "volume_type", "type", "type"),
    "no such metric": Breakage(CONTINUOUS, "STREAMING_BACKLOG_SECONDS", "STREAMING_LAG", "STREAMING_LAG"),
    "no such retry mode": Breakage(CONTINUOUS, "ON_FAILURE", "ALWAYS", "ALWAYS"),
    "text for a number": Breakage(DRAIN, "value: 3600", "value: an hour", "an hour"),
    "a key twice": Breakage(AUDIT, "      description:", "      name: other\n      description:", "name twice"),
    "missing notebook": Breakage(AUDIT, "python_wheel_task:", NOTEBOOK, "there is no file notebooks/gone.ipynb"),
    "misspelt field of a notebook": Breakage(LOOK, "sets: |", "flags: |", "the notebook has no parameter flags"),
    "wrong setting of a notebook": Breakage(LOOK, "  lake={{", "  lake.katalog={{", "lake.katalog"),
    "another lake for a notebook": Breakage(
        LOOK, "lake={{job.parameters.lake}}", "lake.schemas.gold=other", "gold is not the bundle's schema"
    ),
    "notebooks awake": Breakage(LOOK, "pause_status: PAUSED", "pause_status: UNPAUSED", "not paused", ("dev",)),
    "missing include": Breakage(MAIN, "conf/bundle/*.yml", "conf/bundles/*.yml", "no file is conf/bundles/*.yml"),
    "missing configuration": Breakage(
        MAIN, "conf/${bundle.target}.yaml", "conf/x.yaml", "there is no configuration file"
    ),
    "wrong command": Breakage(AUDIT, "- validate\n", "- valdate\n", "No such command 'valdate'"),
    "wrong flag": Breakage(DRAIN, "- --once", "- --onse", "No such option: --onse"),
    "wrong setting": Breakage(AUDIT, "--set=lake=", "--set=lake.katalog=", "lake.katalog"),
    "wrong value": Breakage(CONTINUOUS, "--set=serving=", "--set=run.trigger=soon", "run.trigger"),
    "unknown entry point": Breakage(DRAIN, "entry_point: oncelake", "entry_point: main", "entry_point main"),
    "unknown package": Breakage(DRAIN, "package_name: oncelake", "package_name: pipeline", "package_name pipeline"),
    "entry point taken away": Breakage("pyproject.toml", 'oncelake = "oncelake.cli.app:main"', "", "no such script"),
    "no wheel": Breakage(CONTINUOUS, "../../dist", "../dist", "the wheel is not there"),
    "wheels stay": Breakage(MAIN, " --clear #", " #", "uv build --wheel --clear"),
    "everything uploaded": Breakage(MAIN, "paths: [conf, notebooks]", "paths: [.]", "sync.paths"),
    "too little uploaded": Breakage(MAIN, "paths: [conf, notebooks]", "paths: [conf]", "sync.paths"),
    "secrets uploaded": Breakage(MAIN, "exclude: [.env*, ", "exclude: [", "sync.exclude"),
    "no versions": Breakage(DRAIN, "            - requirements: requirements.txt\n", "", "the newest versions"),
    "other versions": Breakage(DRAIN, "requirements: requirements", "requirements: other", "no file conf/bundle/other"),
    "no uv": Breakage(MAIN, "uv build --wheel", "python -m build", "uv build --wheel"),
    "undeclared variable": Breakage(MAIN, "${var.source}", "${var.sauce}", "${var.sauce} leads nowhere"),
    "undeclared job parameter": Breakage(DRAIN, "parameters.lake", "parameters.lakes", "no job parameter lakes"),
    "unsaid job parameters": Breakage(AUDIT, "      parameters: ${var.parameters}\n", "", "no job parameter conf"),
    "undeclared variable, given": Breakage(MAIN, "operators: none", "operator: none", "operator", ("dev",)),
    "variable without value": Breakage(MAIN, 'default: "{}"', "", "no value assigned to required variable serving"),
    "no such resource": Breakage(MAIN, "schemas.gold.name", "schemas.golden.name", "golden.name} leads nowhere"),
    "no such workspace field": Breakage(MAIN, "workspace.file_path", "workspace.files", "workspace.files} leads"),
    "endless variable": Breakage(MAIN, 'default: "{}"', "default: ${var.serving}", "too deep"),
    "no such job cluster": Breakage(
        DRAIN, "job_cluster_key: main\n          max", "job_cluster_key: x\n          max", "cluster x"
    ),
    "no such task": Breakage(
        AUDIT, "- task_key: prove\n          run_if", "- task_key: proof\n          run_if", "no task"
    ),
    "several runs": Breakage(CONTINUOUS, "max_concurrent_runs: 1", "max_concurrent_runs: 2", "max_concurrent_runs 2"),
    "several runs, unsaid": Breakage(CONTINUOUS, "      max_concurrent_runs: 1", "     ", "share the checkpoints"),
    "several drains, unsaid": Breakage(DRAIN, "      max_concurrent_runs: 1", "     ", "share the checkpoints"),
    "retries unsaid": Breakage(CONTINUOUS, "  task_retry_mode: ON_FAILURE", "", "task_retry_mode"),
    "retry policy": Breakage(
        CONTINUOUS, "- task_key: run", "- task_key: run\n          max_retries: 3", "no retry policy"
    ),
    "no rule on backlog": Breakage(
        CONTINUOUS, "STREAMING_BACKLOG_SECONDS", "RUN_DURATION_SECONDS", "no rule on STREAMING"
    ),
    "serverless": Breakage(DRAIN, "          job_cluster_key: main\n", "", "no job cluster None"),
    "shared compute": Breakage(MAIN, "MODE_DEDICATED", "MODE_STANDARD", "a session each"),
    "another runtime": Breakage(MAIN, "18.x", "16.4.x", "spark_version 16.4.x-scala2.13"),
    "autoscaling": Breakage(MAIN, "num_workers: ${var.workers}", "autoscale: {max_workers: 4}", "fixed number"),
    "both write": Breakage(MAIN, "default: PAUSED", "default: UNPAUSED", "one job writes the lake, not 2", ("prod",)),
    "none writes": Breakage(CONTINUOUS, "${var.continuous_status}", "PAUSED", "all are paused", ("prod",)),
    "runs in development": Breakage(
        CONTINUOUS, "pause_status: ${var.continuous_status}", "pause_status: UNPAUSED", "not paused", ("dev",)
    ),
    "canceled unheard": Breakage(
        CONTINUOUS, "canceled_runs: false", "canceled_runs: true", "no_alert_for_canceled_runs: a run"
    ),
    "queue unsaid": Breakage(CONTINUOUS, "      queue:\n        enabled: false", "", "queue: unset"),
    "queue": Breakage(AUDIT, "enabled: false", "enabled: true", "queue: unset"),
    "failure unheard": Breakage(
        AUDIT,
        "            - task_key: prove\n            - task_key: validate",
        "            - task_key: validate",
        "prove: its failure",
    ),
    "nobody told": Breakage(DRAIN, "        on_failure: ${var.alert_emails}\n", "", "nobody is told"),
    "other checkpoints": Breakage(MAIN, "/${resources.volumes.checkpoints.name}", "/other", "the bundle's volume is"),
    "schema outside": Breakage(
        MAIN, ", quality: ${resources.schemas.quality.name}", "", "quality is not the bundle's", ("dev",)
    ),
    "layer without a schema": Breakage(
        "conf/bundle/quality.schema.yml", "    quality:", "    audits:", "quality.name} leads nowhere", ("dev",)
    ),
    "unprefixed schema": Breakage(MAIN, "${resources.schemas.gold.name}", "gold", "gold is not the bundle's", ("dev",)),
    "unknown environment": Breakage(MAIN, "default: {}", "default: {ONCELAKE_SERVNG__URL: x}", "ONCELAKE_SERVNG__URL"),
    "unknown environment key": Breakage(MAIN, "default: {}", "default: {ONCELAKE_SERVING__ULR: x}", "serving.ulr"),
    "secret in the open": Breakage(
        MAIN, "default: {}", "default: {ONCELAKE_SERVING__PASSWORD: hunter2}", "a secret is given by"
    ),
    "misspelt dashboard key": _in_prod(DASHBOARD, "dataset_catalog", "data_catalog", "data_catalog"),
    "misspelt dashboard key, by schema": _in_prod(
        DASHBOARD, "display_name", "name", "oncelake: Additional properties", by_schema=True
    ),
    "no warehouse": _in_prod(DASHBOARD, "warehouse_id: ${var.warehouse_id}", "", "warehouse_id is required"),
    "embedded credentials": _in_prod(DASHBOARD, "embed_credentials: false", "embed_credentials: true", "run_as"),
    "missing dashboard": _in_prod(DASHBOARD, "oncelake.lvdash", "gone.lvdash", "gone.lvdash.json cannot be read"),
    "dashboard that is no JSON": _in_prod(DRAWN, '"datasets": [', '"datasets": [,', "cannot be read"),
    "dashboard without datasets": _in_prod(DRAWN, '"datasets"', '"dataset"', "has no datasets"),
    "variable in a dashboard": _in_prod(DRAWN, "${resources.schemas.gold.name}", "${var.catalog}", "stays as it is"),
    "no such schema in a dashboard": _in_prod(DRAWN, "schemas.gold.name", "schemas.golden.name", "stays as it is"),
    "no such dataset": _in_prod(DRAWN, '"datasetName": "reasons"', '"datasetName": "reason"', "no dataset reason"),
    "misspelt column": _in_prod(DRAWN, "SUM(`errors`)", "SUM(`error`)", "dataset errors has no column error"),
    "misspelt column in a query": _in_prod(DRAWN, "AS on_the_way", "AS on_the_wey", "has no column on_the_way"),
    "misspelt field": _in_prod(DRAWN, '"fieldName": "minutes_since"', '"fieldName": "minutes"', "shows minutes,"),
    "widget over another": _in_prod(DRAWN, '"x": 3', '"x": 2', "is over another widget"),
    "widget of another version": _in_prod(DRAWN, '"version": 3', '"version": 4', "no test knows version 4 of"),
    "no root_path": Breakage(MAIN, "root_path:", "state_path:", "needs workspace.root_path", ("prod",)),
    "wrong configuration": Breakage("conf/prod.yaml", "format: default", "format: defualt", "defualt", ("prod",)),
}
