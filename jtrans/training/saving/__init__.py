"""Checkpoints: written in a thread while training goes on, and removed when they are surplus."""
