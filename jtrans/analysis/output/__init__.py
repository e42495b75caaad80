"""Figures, tables and pictures as files."""
