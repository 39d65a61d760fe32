"""This is where what makes later starts and batches short is brought once: the Java libraries, their archive, a class.

`python -m oncelake.set_up`; what is there already stays. Nothing else needs it: a start without the libraries fetches
them, and one without the archive or the class takes some seconds longer.
"""

import os
import sys
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from oncelake.common.errors import OncelakeError
from oncelake.common.spark import class_data, direct_file_system, jars
from oncelake.common.spark.session import java_output_to


def main() -> None:
    """Bring what is missing.

    Raises:
        OncelakeError: the libraries could not be had.
    """
    jars.class_path()
    if not direct_file_system.jar().exists():
        try:
            with java_output_to(Path(os.devnull)):
                direct_file_system.write()
        except (Py4JError, PySparkException, OSError) as error:
            said = str(error).splitlines()[0]
            print(f"oncelake: the file system could not be compiled ({said}); a file takes some ms longer without it")
    failed = None if class_data.archive().exists() else class_data.write()
    if failed is not None:
        print(f"oncelake: no archive of Java's classes ({failed}); starts take some seconds longer without it")


if __name__ == "__main__":
    try:
        main()
    except OncelakeError as error:
        sys.exit(f"oncelake: {error}")
