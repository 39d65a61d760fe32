"""`python -m oncelake` is `oncelake`."""

from oncelake.cli.app import main

main()
