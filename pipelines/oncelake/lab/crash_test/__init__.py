"""The crash test: the chain is killed again and again, and its tables are held against what went in."""
