"""Exports, under the name by which they are imported: see `ilba.output.export`."""

from ilba.output.export import FORMATS, export

__all__ = ["FORMATS", "export"]
