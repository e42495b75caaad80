"""Pervasive attention prepared for the search."""
