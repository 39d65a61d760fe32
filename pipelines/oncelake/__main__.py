"""`python -m oncelake` is `oncelake`."""

from oncelake.cli import main

main()
