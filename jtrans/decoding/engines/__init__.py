"""Engines of other programs that translate with exported models."""
