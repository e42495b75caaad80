"""The readers of raw text formats, one per file."""
