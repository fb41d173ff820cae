"""The terms of a publication: hierarchies, keys, the threshold, tables and their names, what a label is.

The other rooms are given a `Design` and a `Selection` and need not check a name, a rank or a level again.
"""
