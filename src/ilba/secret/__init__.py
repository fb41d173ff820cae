"""The secret of an agency: a draw is a function of the labels, the count and the secret, on any engine."""
