"""The terms of a publication: hierarchies, keys, the threshold, tables and their names, what a label is.

Other modules get a checked `Design` and `Selection`.
"""
