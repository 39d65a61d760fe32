"""Compare the files that Databricks' Auto Loader has found with bronze."""

from collections.abc import Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oncelake.common.lake import BRONZE
from oncelake.exactly_once.files_source import AutoLoaderSource, place_of
from oncelake.proof.file_rows import ReadFile, name_of
from oncelake.proof.link import Link, listed


def auto_loader_files(
    spark: SparkSession, source: AutoLoaderSource, files: Sequence[ReadFile]
) -> tuple[Link, Sequence[str]]:
    """Ask Auto Loader for the files that it has read whole, and look for each in bronze.

    Its function `cloud_files_state` lists what it has found, with the time at which each file was committed. Where it
    cannot be asked, nothing can be told of files that are missing, and the link does not hold.

    Returns:
        The link, and the paths of the files that may be read again.

    Source: Databricks' documentation, "cloud_files_state table-valued function".
    """
    name, table = f"files of {source.path}", str(BRONZE)
    where = source.checkpoint.replace("\\", "\\\\").replace("'", "\\'")
    try:
        rows = spark.sql(f"SELECT path, commit_time IS NOT NULL AS done FROM cloud_files_state('{where}')").collect()
    except (Py4JJavaError, PySparkException) as error:
        said = f"cannot be told: Auto Loader does not list its files here ({str(error).splitlines()[0]})"
        return Link(name, table, False, said), ()
    held = {each.place for each in files}
    missing = sorted(path for row in rows if row["done"] and (path := place_of(row["path"])) not in held)
    waiting = sum(1 for row in rows if not row["done"])
    if missing:
        words = f"{len(missing):,} files were read by Auto Loader and have no line in bronze: "
        return Link(name, table, False, words + listed(map(name_of, missing))), ()
    well = f"{len(held):,} files are in bronze" + (f", {waiting:,} waiting for the next run" if waiting else "")
    note = "files that Auto Loader has not found yet are not known here"
    return Link(name, table, True, well, (note,)), [each.place for each in files]
