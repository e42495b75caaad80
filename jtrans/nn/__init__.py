"""Layers that know tensors and nothing else: equations here, fast forms in `cpu` and `gpu`."""
