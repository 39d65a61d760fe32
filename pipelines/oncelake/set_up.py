"""Prepare this machine now, and not at the first use; try again what failed before.

Run: `python -m oncelake.set_up`. It skips whatever exists already.
"""

import sys

from oncelake.common.errors import OncelakeError
from oncelake.common.spark import first_use


def main() -> None:
    """Download, compile and write what is missing.

    Raises:
        ConfigError: there is no Java, or it is another version.
        OncelakeError: the libraries could not be downloaded.
    """
    first_use.prepare(again=True)


if __name__ == "__main__":
    try:
        main()
    except OncelakeError as error:
        sys.exit(f"oncelake: {error}")
