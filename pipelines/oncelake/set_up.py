"""Prepare this machine now, and not at the first use; try again what failed before.

Run: `python -m oncelake.set_up`. It skips whatever exists already.
"""

import sys

from oncelake.common.errors import OncelakeError
from oncelake.common.spark import first_use
from oncelake.common.spark.machine import check_machine
from oncelake.common.spark.settings import SparkSettings


def main() -> None:
    """Download, compile and write what is missing.

    Raises:
        ConfigError: Spark cannot start on this machine, for example without Java.
        OncelakeError: the libraries could not be downloaded.
    """
    check_machine(SparkSettings())
    first_use.prepare(again=True)


if __name__ == "__main__":
    try:
        main()
    except OncelakeError as error:
        sys.exit(f"oncelake: {error}")
