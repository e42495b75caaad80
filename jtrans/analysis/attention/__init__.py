"""Attention maps and word alignments."""
