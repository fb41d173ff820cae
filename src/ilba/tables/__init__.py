"""The finest table and every table made from it: that all of them come from the same four additive parts."""
