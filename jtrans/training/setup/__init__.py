"""Building a trainer from settings, and the checks before training starts."""
