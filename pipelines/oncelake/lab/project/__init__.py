"""The files of a new project: their templates, and what fills them in."""
