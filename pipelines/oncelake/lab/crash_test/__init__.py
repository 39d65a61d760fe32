"""The crash test: kill the chain repeatedly, then compare its tables with the input."""
