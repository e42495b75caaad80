"""The prepared corpus as training reads it."""
