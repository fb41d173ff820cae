"""Cells: that a cell is one whole number, that an area is a run of them, and that tables form a tree."""
