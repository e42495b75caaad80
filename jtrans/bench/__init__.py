"""Benchmarks of training and preparation on this machine."""
