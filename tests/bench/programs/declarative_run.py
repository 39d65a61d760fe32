"""Write the project of the declarative pipeline into its lake, and run it with `spark-pipelines run`.

Its catalog is Hive's with a Derby database, since Spark's own forgets the tables when a run ends, and the next run
fails. It gets two cores, two gigabytes and two shuffle partitions, as the plain chain does.

    python -m tests.bench.programs.declarative_run SOURCE LAKE CLASS_PATH
"""

import os
import shutil
import sys
from pathlib import Path

import yaml


def main(source: Path, lake: Path, class_path: str) -> None:
    """Write the specification and the cluster's settings, then become `spark-pipelines run`."""
    project = lake / "_project"
    (project / "transformations").mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).with_name("declarative.py"), project / "transformations")
    spec = {
        "name": "bench",
        "storage": (lake / "_storage").as_uri(),
        "libraries": [{"glob": {"include": "transformations/**"}}],
        "configuration": {
            "spark.bench.source": str(source),
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.ansi.enabled": "false",
        },
    }
    (project / "spark-pipeline.yml").write_text(yaml.safe_dump(spec))
    # A specification refuses these: they belong to the cluster.
    cluster = {
        "spark.driver.extraClassPath": class_path,
        "spark.driver.memory": "2g",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={lake / '_metastore'};create=true",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.sources.default": "delta",
        "spark.sql.warehouse.dir": str(lake),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    (project / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in cluster.items()))
    os.chdir(project)
    command = Path(sys.executable).with_name("spark-pipelines")
    environment = {**os.environ, "SPARK_CONF_DIR": str(project), "PYSPARK_PYTHON": sys.executable}
    os.execve(command, [str(command), "run", "--remote", "local[2]"], environment)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute(), sys.argv[3])
