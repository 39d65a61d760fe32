"""This is where what makes later starts short is brought once: the Java libraries, the archive of their classes.

`python -m pipelines.set_up`; what is there already stays. Nothing else needs it: a start without the libraries fetches
them, and one without the archive takes some seconds longer.
"""

import sys

from pipelines import class_data, jars
from pipelines.errors import OncelakeError


def main() -> None:
    """Bring what is missing.

    Raises:
        OncelakeError: the libraries could not be had.
    """
    jars.class_path()
    if not class_data.archive().exists() and not class_data.write():
        print("oncelake: no archive of Java's classes could be written; starts take some seconds longer without it")


if __name__ == "__main__":
    try:
        main()
    except OncelakeError as error:
        sys.exit(f"oncelake: {error}")
