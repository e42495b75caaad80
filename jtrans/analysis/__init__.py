"""Where one system beats another: the paper's figures, alignments and comparisons."""
