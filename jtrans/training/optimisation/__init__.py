"""What becomes of a gradient: the optimiser, its learning rate, the guard against abnormal ones."""
