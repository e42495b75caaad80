"""Benchmarks: rates of training, decoding and preparation beside other tools, in turns."""
