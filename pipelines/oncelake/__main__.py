"""Run `oncelake` as `python -m oncelake`."""

from oncelake.cli.app import main

main()
