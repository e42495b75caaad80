"""Checkpoints on their way to disk: written beside training, and removed when they are surplus."""
