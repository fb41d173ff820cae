"""The finest table and every table made from it, all from the same four additive parts."""
