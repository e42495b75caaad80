"""Weights that do not come from the optimiser: initial ones, and averages of several."""
