"""Kernels for a GPU, and their substitutes elsewhere."""
