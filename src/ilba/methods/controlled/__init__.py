"""Jointly chosen masks: the search for masks of 0 or K whose sums stay near the truth in every released table."""
