"""Losses and gradients that are not finite: their cause, and how training continues."""
