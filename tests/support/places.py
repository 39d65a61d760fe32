"""Name the project's own directories."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
FORMATS = ROOT / "conf" / "formats"
