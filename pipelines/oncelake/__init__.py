"""oncelake: application logs to counts people can trust, exactly once."""

__version__ = "0.1.0"
