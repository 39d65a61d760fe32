"""Prepare what makes later starts and batches faster: the Java libraries, the class archive and our file system.

Run: `python -m oncelake.set_up`. It skips whatever exists already. This step is optional: a start without the libraries
downloads them. Without the archive, each start takes some seconds longer; without our file system, each file takes
some milliseconds longer.
"""

import os
import sys
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from oncelake.common.errors import OncelakeError
from oncelake.common.spark import class_data, compiled, jars
from oncelake.common.spark.session import java_output_to


def main() -> None:
    """Download, compile and write what is missing.

    Raises:
        OncelakeError: the libraries could not be downloaded.
    """
    jars.class_path()
    if not compiled.jar().exists():
        try:
            with java_output_to(Path(os.devnull)):
                compiled.write()
        except (Py4JError, PySparkException, OSError) as error:
            said = str(error).splitlines()[0]
            print(f"oncelake: the file system could not be compiled ({said}); each file takes some ms longer")
    failed = None if class_data.archive().exists() else class_data.write()
    if failed is not None:
        print(f"oncelake: no archive of Java's classes ({failed}); without it each start takes some seconds longer")


if __name__ == "__main__":
    try:
        main()
    except OncelakeError as error:
        sys.exit(f"oncelake: {error}")
