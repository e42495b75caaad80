"""Losses and gradients that are not finite: what they come from, and how training goes on."""
