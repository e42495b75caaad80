"""How fast things are here, and how fast they could be."""
