"""Exports, for `from ilba.export import export`: see `ilba.output.export`."""

from ilba.output.export import FORMATS, export

__all__ = ["FORMATS", "export"]
