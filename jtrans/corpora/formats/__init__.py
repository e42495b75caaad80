"""The readers of raw text formats, one a file."""
