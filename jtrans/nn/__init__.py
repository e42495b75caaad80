"""Layers: their equations here, fast forms in `cpu` and `gpu`."""
