"""Checkpoints of other programs as runs."""
