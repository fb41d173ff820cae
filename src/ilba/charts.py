"""Charts, for `from ilba import charts`: see `ilba.output.charts`, `loss_charts` and `drawing`."""

from ilba.output.charts import areas, bars
from ilba.output.drawing import PALETTE, html, save, svg
from ilba.output.loss_charts import attackers, loss, loss_shares, points, risk

__all__ = [
    "PALETTE",
    "areas",
    "attackers",
    "bars",
    "html",
    "loss",
    "loss_shares",
    "points",
    "risk",
    "save",
    "svg",
]
