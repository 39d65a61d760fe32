"""The demo: a made log, the chain run over it, and its answer counted without Spark."""
