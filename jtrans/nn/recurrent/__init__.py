"""Recurrent layers: the layer-normalised LSTM and additive attention (docs/systems.md 7)."""
