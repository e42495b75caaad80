"""From a gradient to a step: the optimiser, its learning rate, the guard against bad gradients."""
