"""The report on what masking costs, under the name by which it is imported: see `ilba.output.report`."""

from ilba.output.report import Loss, report

__all__ = ["Loss", "report"]
