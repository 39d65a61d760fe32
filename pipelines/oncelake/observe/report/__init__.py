"""The report: one page that tells what a lake holds, how it came there, and whether that is proven."""
