"""The figures of the paper as plain numbers."""
