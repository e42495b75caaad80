"""GPU kernels behind torch operators, each with an implementation for other devices beside it."""
