"""All analyses on one self-contained page."""
