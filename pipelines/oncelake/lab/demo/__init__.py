"""The demo: run the chain on a generated log, and compare the result with a count without Spark."""
