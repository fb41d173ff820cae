"""Methods side by side, under the name by which they are imported: see `ilba.output.compare`."""

from ilba.output.compare import Comparison, compare

__all__ = ["Comparison", "compare"]
