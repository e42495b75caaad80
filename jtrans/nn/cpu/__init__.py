"""Blocks computed in parts that stay in the cache of a CPU."""
