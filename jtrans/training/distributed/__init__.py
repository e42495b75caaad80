"""Training on several processes, devices and machines."""
