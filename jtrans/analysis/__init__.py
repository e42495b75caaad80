"""Comparing systems: the paper's figures, word alignments, significance."""
