"""The report: one HTML page with the content of a lake, its batches, and the result of the proof."""
