"""Preparation of a corpus from parallel text."""
