"""Strings to tokens to ids and back, as one reversible pipeline."""
