"""Layers, which depend on tensors alone: equations here, fast forms in `cpu` and `gpu`."""
