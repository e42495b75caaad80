"""From settings to a trainer, and what must be right before training starts."""
