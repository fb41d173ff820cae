"""Charts, under the name by which they are imported: see `ilba.output.charts`."""

from ilba.output.charts import areas, bars, html, is_confidential, loss, loss_shares, points, risk, save, svg

__all__ = ["areas", "bars", "html", "is_confidential", "loss", "loss_shares", "points", "risk", "save", "svg"]
