"""Convolutions over sequences and grids."""
