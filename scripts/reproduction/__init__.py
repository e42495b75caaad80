"""The tables and figures of Li et al. (2020), and comparisons beyond them, with one command."""
