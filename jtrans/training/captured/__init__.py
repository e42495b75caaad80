"""Gradients of micro-batches captured as CUDA graphs."""
