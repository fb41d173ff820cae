"""The report on the loss, for `from ilba.report import report`: see `ilba.output.report`."""

from ilba.output.report import Loss, report

__all__ = ["Loss", "report"]
