"""The secret of an agency: that a draw is a function of the labels, the count and the secret, on any engine."""
