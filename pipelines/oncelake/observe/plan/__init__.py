"""`plan`: what a changed configuration does to a lake, before a run does it."""
