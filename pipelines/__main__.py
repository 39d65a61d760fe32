"""`python -m pipelines` is `oncelake`."""

from pipelines.cli import main

main()
