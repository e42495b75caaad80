"""Benchmarks of training, decoding and preparation against other tools, in turns."""
