"""Kernels for a GPU and what stands in for them elsewhere."""
