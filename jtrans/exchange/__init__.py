"""Conversion of other programs' checkpoints to runs."""
