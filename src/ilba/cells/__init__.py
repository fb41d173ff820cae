"""Cells as whole numbers, areas as ranges of them, and the tree of tables."""
