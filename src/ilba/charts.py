"""Charts, for `from ilba import charts`: see `ilba.output.charts`."""

from ilba.output.charts import PALETTE, areas, attackers, bars, html, loss, loss_shares, points, risk, save, svg

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
